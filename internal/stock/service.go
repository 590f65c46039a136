package stock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
	"gorm.io/gorm"

	"oversell/internal/broadcast"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/stock/stream"
)

// Config configures a Service.
type Config struct {
	DB      *gorm.DB
	Redis   redis.Cmdable
	Changes func() uint64 // returns how many times Redis was replaced (see backend.RedisWatch); nil: not watched
	// History returns the id of the history that the data at a key of Redis belongs
	// to (see backend.RedisHistory); nil: histories are not compared.
	History    func(ctx context.Context, key string) (string, error)
	Strategies map[string]Strategy // by name
	Mixed      bool                // families may sell one item at the same time, which oversells
	Turn       time.Duration       // how long a family that sells nothing keeps others out; 0 means 2 s
	Now        func() time.Time    // the clock of turns, for tests in virtual time; nil: the database's
	Wait       time.Duration       // longest wait for a guard; 0 means 10 s
	Grace      time.Duration       // how long units are missing before they count as stranded; 0 means DefaultGrace
	Holds      Holds               // for items with the keeper InHolds; nil: such an item has no holds
	Work       Work                // what a holder does between reading and writing the stock; nil: nothing
	Logger     *slog.Logger        // nil: slog.Default

	// Inside is called with +1 when a holder enters the section of an item, and with -1 when it
	// leaves; nil: not called.
	Inside func(sku string, step int)
}

// Strategy is one way to sell: with a Guard, which runs a section, or with a Script, which needs no
// lock.
type Strategy struct {
	Guard  Guard
	Script *ScriptSeller
	Keeper Backend // the backend in which it needs the stock; "": either
	Family string  // strategies of one family exclude each other; "": a family of its own
}

// Work is the step between reading the stock and writing it. A real shop would check the price and
// ask for payment here; the bench injects its conditions here. Work is called only if enough units
// are left. If it returns an error, the section ends and nothing is taken.
//
// Its context ends when the guard is lost. As its last step, Work must check whether the context
// has ended, and return the cause. If Work returns nil, the sale is written without another check.
// The check and the write can never be one step, so no lease protects against a pause between them.
//
// The function it returns, if any, is called at the end of the section, while the guard is still
// held, whether or not the sale was written.
type Work func(ctx context.Context, sku string) (after func(), err error)

// Service sells items. It is safe for concurrent use.
type Service struct {
	cfg      Config
	log      *slog.Logger
	store    store
	redis    redisStock
	claims   singleflight.Group // calls to claim, by SKU and family
	flights  *flights
	waiters  *broadcast.Broadcaster
	streams  stream.Streams
	accepted *acceptedItems
	// admitted is the admission limit: it limits how many buyers read items at the same time before
	// they wait for a lock, so that many buyers at once do not slow down the holders.
	admitted *semaphore.Weighted
	// sameKey serializes requests with the same idempotency key.
	sameKey guard.KeyedMutex

	reconciliation reconciliation
	cancel         context.CancelFunc // ends the background work
}

const (
	defaultWait = 10 * time.Second
	maxAdmitted = 32
)

// New returns a Service. Migrate must have created the tables.
func New(cfg Config) *Service {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Grace = cmp.Or(cfg.Grace, DefaultGrace)
	cfg.Turn = cmp.Or(cfg.Turn, defaultTurn)
	cfg.Wait = cmp.Or(cfg.Wait, defaultWait)
	if cfg.Work == nil {
		cfg.Work = func(ctx context.Context, _ string) (func(), error) { return nil, context.Cause(ctx) }
	}
	if cfg.Inside == nil {
		cfg.Inside = func(string, int) {}
	}
	if cfg.Holds == nil {
		cfg.Holds = noHolds{}
	}
	if cfg.Changes == nil {
		cfg.Changes = func() uint64 { return 0 }
	}
	cfg.Strategies = maps.Clone(cfg.Strategies)
	for name, how := range cfg.Strategies {
		how.Family = cmp.Or(how.Family, name)
		cfg.Strategies[name] = how
	}
	ctx, cancel := context.WithCancel(context.Background())
	db := store{cfg.DB}
	s := &Service{
		cfg:      cfg,
		log:      cfg.Logger,
		store:    db,
		redis:    redisStock{cfg.Redis, new(sync.Map)},
		flights:  &flights{store: db, log: cfg.Logger, instance: uuid.NewString(), units: make(map[string]*inFlight)},
		admitted: semaphore.NewWeighted(maxAdmitted),
		streams:  stream.Streams{Redis: cfg.Redis, Check: checkEntry},
		accepted: &acceptedItems{wake: make(chan struct{}, 1), items: make(map[string]*acceptedItem)},
		cancel:   cancel,
		reconciliation: reconciliation{
			changes: cfg.Changes, seen: make(map[string]comparison), doubts: make(map[string]map[string]bool),
		},
	}
	s.flights.publisher = &guard.Background{Context: ctx, Step: s.flights.publish}
	s.reconciliation.settler = &guard.Background{Context: ctx, Step: s.settleDoubts()}
	s.accepted.follower = &guard.Background{Context: ctx, Step: s.follow}
	s.waiters = broadcast.New(s.reasonToStop)
	return s
}

// reasonToStop returns the error that ends the waits of a generation's buyers: ErrSoldOut if nothing is
// left, errOtherSale if the generation is no longer current. If the stock cannot be read, it
// returns nil: the waiters notice by their own commands that Redis is down.
func (s *Service) reasonToStop(ctx context.Context, key string) error {
	sku, waited, _ := strings.Cut(key, " ")
	now, ok, err := s.redis.read(ctx, sku)
	if err != nil || !ok {
		return nil
	}
	soldOut := now.backend.inRedis() && now.left <= 0
	if now.gen.String() != waited || soldOut && !s.reconciliation.fresh(sku) {
		now, err = s.reconcileStock(ctx, sku)
	}
	if err == nil && !now.backend.inRedis() {
		now, err = s.readItem(ctx, sku)
	}
	if err != nil {
		return nil
	}
	switch {
	case now.gen.String() != waited:
		return errOtherSale
	case now.left <= 0:
		return ErrSoldOut
	}
	return nil
}

// Close ends all waits with ErrClosing, including those that begin later. Sections that have begun
// are finished. Units that are still in doubt stay taken until another process counts the stock.
func (s *Service) Close() {
	s.cancel()
	s.waiters.Close(ErrClosing)
	s.flights.publisher.Wait()
	s.reconciliation.settler.Wait()
	s.accepted.follower.Wait()
}

// Item reads an item from the database. It returns ErrUnknownItem if there is no such item.
func (s *Service) Item(ctx context.Context, sku string) (Item, error) {
	if err := CheckSKU(sku); err != nil {
		return Item{}, err
	}
	return s.store.item(ctx, sku)
}

// Left returns the units left, as read from the stock's backend, and the id of the current sale. It
// returns ErrUnknownItem if there is no such item.
func (s *Service) Left(ctx context.Context, sku string) (left int64, saleID string, err error) {
	r, err := s.readCurrent(ctx, sku, "")
	if errors.Is(err, errOtherSale) {
		if r, err = s.reconcileStock(ctx, sku); err == nil && !r.backend.inRedis() {
			r, err = s.readItem(ctx, sku)
		}
	}
	if err != nil || r.backend != InHolds {
		return r.left, r.gen.saleID, err
	}
	item, err := s.store.item(ctx, sku)
	if err != nil {
		return 0, "", err
	}
	left, _, err = s.cfg.Holds.Units(ctx, item)
	return left, item.SaleID, err
}

// Audit compares the orders with the stock. During a sale the result is approximate,
// because the two are not read at the same moment.
func (s *Service) Audit(ctx context.Context, sku string) (Audit, error) {
	if err := CheckSKU(sku); err != nil {
		return Audit{}, err
	}
	now, err := s.reconcileStock(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	item, err := s.store.item(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	if item.backend() == InDatabase {
		now.left = item.left()
	}
	var held, alarms, refunds int64
	if item.backend() == InHolds {
		if now.left, held, err = s.cfg.Holds.Units(ctx, item); err != nil {
			return Audit{}, err
		}
		if alarms, refunds, err = s.cfg.Holds.OpenPayments(ctx, sku); err != nil {
			return Audit{}, err
		}
	}
	unwritten, lag99, err := s.behind(ctx, item)
	if err != nil {
		return Audit{}, err
	}
	lost, err := s.acceptedLost(ctx, item)
	if err != nil {
		return Audit{}, err
	}
	found, err := s.store.count(ctx, sku, item.SaleID)
	if err != nil {
		return Audit{}, err
	}
	foreign, err := s.store.foreign(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	found.Remaining, found.Held, found.Unwritten = now.left, held, unwritten
	b := Balance{Missing: -found.LostUpdates()}
	if b.Pending, err = s.flights.of(ctx, sku); err != nil {
		return Audit{}, err
	}
	return Audit{
		SKU: sku, SaleID: item.SaleID, Stock: found,
		Oversold: found.Oversold(), LostUpdates: found.LostUpdates(),
		Stranded: b.Stranded(), InFlight: unwritten + b.InFlight(), Foreign: foreign,
		AcceptedLost: lost, DurableP99: figures.Milliseconds(lag99),
		PaymentAlarms: alarms, OpenRefunds: refunds,
	}, nil
}

// maxCategoryItems limits the items in the category map.
const maxCategoryItems = 10_000

// Categories reads the category map from the database: the SKUs of each category. Items without a
// category are left out. The cache exists for this expensive read.
func (s *Service) Categories(ctx context.Context) (map[string][]string, error) {
	var items []Item
	err := s.store.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select("sku", "category").Where("category <> ''").Order("category, sku").
			Limit(maxCategoryItems).Find(&items)
	}, "reading the category map")
	if err != nil {
		return nil, err
	}
	skus := make(map[string][]string)
	for _, item := range items {
		skus[item.Category] = append(skus[item.Category], item.SKU)
	}
	return skus, nil
}
