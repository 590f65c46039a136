package stock

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/figures"
	"oversell/internal/locks"
	"oversell/internal/notice"
)

// Config is what a Service is made with.
type Config struct {
	DB       *gorm.DB
	Redis    redis.UniversalClient
	Changes  func() uint64     // how often Redis was found to be another one, as backend.RedisWatch tells; nil: nobody looks
	Guards   map[string]Guard  // by strategy name
	Takers   map[string]*Taker // by strategy name: what sells without a guard
	InDB     map[string]bool   // by strategy name: the guard works in the database alone
	Families map[string]string // by strategy name: which strategies keep each other out; default: each for itself
	Mixed    bool              // families may be at work on one item at the same time, which oversells
	Wait     time.Duration     // longest wait for a guard; 0 means 10 s
	Unfenced bool              // the stock does not look at fencing tokens
	Work     Work              // what a holder does between reading and writing the stock; nil: nothing
	Inside   figures.Inside    // hears of the holders, by SKU; nil: nobody does
	Logger   *slog.Logger      // nil: slog.Default
}

// Use gives the shop those strategies of a catalog that can be had with o, with
// which their guards are made.
// Redis, DB and Unfenced have to be set before.
func (c *Config) Use(catalog locks.Catalog, o locks.Options) {
	c.Guards, c.Takers, c.InDB = make(map[string]Guard), make(map[string]*Taker), make(map[string]bool)
	c.Families = make(map[string]string)
	keepers := Keepers{Redis: c.Redis, DB: c.DB, Unfenced: c.Unfenced}
	pins := pinned(c.DB)
	for _, s := range catalog.With(o) {
		keepers.Strategy = s.Name
		c.InDB[s.Name] = s.InDatabase()
		c.Families[s.Name] = familyOf(s)
		switch s.Kind {
		case locks.Guarded:
			c.Guards[s.Name] = Exclusive(keepers, s.NewGuard(o))
		case locks.Optimistic:
			c.Guards[s.Name] = Optimistic(c.Redis)
		case locks.Atomic:
			c.Takers[s.Name] = Atomic(c.Redis, 0)
		case locks.Batched:
			c.Takers[s.Name] = Batched(c.Redis, 0)
		case locks.Conditional:
			c.Guards[s.Name] = Conditional(c.DB)
		case locks.Versioned:
			c.Guards[s.Name] = Versioned(c.DB)
		case locks.RowLocked:
			c.Guards[s.Name] = RowLocked(c.DB, pins)
		case locks.NameLocked:
			c.Guards[s.Name] = NameLocked(c.DB, pins)
		}
	}
}

// Work is the step between reading the stock and writing it, where a shop
// would check the price and ask for payment, and where every condition of the
// bench takes hold. It is called after the stock was read and found to be
// enough; its error ends the section before anything was taken.
//
// Its context ends when the guard is lost, and Work has the last look at it: it
// returns the cause then. After a nil the sale is written without another look.
// That look and the write can never be one step, and a process that is paused
// between them is what no lease protects from.
//
// The function it returns, if any, is called when the section ends, whether or
// not the sale could be written, while the guard is still held.
type Work func(ctx context.Context, sku string) (after func(), err error)

// Service sells items. It is safe for concurrent use.
type Service struct {
	store      store
	stock      counters
	guards     map[string]Guard
	takers     map[string]*Taker
	inDatabase map[string]bool
	families   *families
	wait       time.Duration
	work       Work
	inside     figures.Inside
	log        *slog.Logger
	notices    *notice.Board
	// entry bounds how many buyers look at an item at once before they wait
	// for its guard, so that a crowd at the door does not slow down those who
	// hold the guard.
	entry chan struct{}
	// sameKey lets requests with the same idempotency key in one by one.
	sameKey locks.Local

	agreement agreement
	cancel    context.CancelFunc // of the settler's context
}

const (
	defaultWait = 10 * time.Second
	maxEntering = 32
)

// New returns a Service. The tables must be there: see Migrate.
func New(cfg Config) *Service {
	s := &Service{
		store:      store{cfg.DB},
		stock:      counters{cfg.Redis, new(sync.Map)},
		guards:     cfg.Guards,
		takers:     cfg.Takers,
		inDatabase: cfg.InDB,
		families:   newFamilies(cfg),
		wait:       cfg.Wait,
		work:       cfg.Work,
		inside:     cfg.Inside,
		log:        cfg.Logger,
		entry:      make(chan struct{}, maxEntering),
	}
	if s.wait == 0 {
		s.wait = defaultWait
	}
	if s.work == nil {
		s.work = func(ctx context.Context, _ string) (func(), error) { return nil, context.Cause(ctx) }
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel, s.agreement.settle = cancel, func() { s.settleDoubts(ctx) }
	s.agreement.changes = cfg.Changes
	if s.agreement.changes == nil {
		s.agreement.changes = func() uint64 { return 0 }
	}
	s.notices = notice.New(s.soldOut)
	return s
}

// noticeKey is what those who wait to buy in one generation of an item wait for.
func noticeKey(sku string, g generation) string { return sku + " " + g.String() }

// soldOut is what those who wait for a sale's stock are told when nothing of it is
// left, or when it is no longer the current one. A look that fails says nothing:
// that Redis is away they learn by their own commands.
func (s *Service) soldOut(ctx context.Context, key string) error {
	sku, waited, _ := strings.Cut(key, " ")
	now, ok, err := s.stock.look(ctx, sku)
	if err == nil && ok && now.keeper == InDatabase {
		now, err = s.readItem(ctx, sku)
	}
	if err != nil || !ok {
		return nil
	}
	if now.gen.String() != waited || now.left <= 0 && !s.agreement.fresh(sku) {
		if now, err = s.agreeOn(ctx, sku); err != nil {
			return nil
		}
	}
	switch {
	case now.gen.String() != waited:
		return errOtherSale
	case now.left <= 0:
		return ErrSoldOut
	}
	return nil
}

// Close turns away everybody who waits and everybody who comes, with
// ErrClosing. Sections that have begun run to their end. Units that are in doubt
// then stay taken until another process counts.
func (s *Service) Close() {
	s.cancel()
	s.notices.Close(ErrClosing)
	s.families.close()
	s.agreement.close()
}

// Item reads an item from the database. It returns ErrUnknownItem.
func (s *Service) Item(ctx context.Context, sku string) (Item, error) {
	if err := CheckSKU(sku); err != nil {
		return Item{}, err
	}
	return s.store.item(ctx, sku)
}

// Left returns the units that are left, by who keeps them, and the id of the sale
// that is on, or ErrUnknownItem.
func (s *Service) Left(ctx context.Context, sku string) (left int64, saleID string, err error) {
	r, err := s.read(ctx, sku)
	return r.left, r.gen.saleID, err
}

// Audit compares the orders with the counter. What it says of a sale that is
// still under way is a look in passing: the two are not read at one moment.
func (s *Service) Audit(ctx context.Context, sku string) (Audit, error) {
	if err := CheckSKU(sku); err != nil {
		return Audit{}, err
	}
	now, err := s.agree(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	if now.keeper == InRedis { // what was agreed on may be as old as the call that was shared
		if r, ok, err := s.stock.look(ctx, sku); err != nil {
			return Audit{}, err
		} else if ok {
			now = r
		}
	}
	item, err := s.store.item(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	if item.keeper() == InDatabase {
		now.left = item.Remaining
	}
	found, err := s.store.count(ctx, sku, item.SaleID)
	if err != nil {
		return Audit{}, err
	}
	foreign, err := s.store.foreign(ctx, sku)
	if err != nil {
		return Audit{}, err
	}
	found.Initial, found.Remaining = item.Initial, now.left
	return Audit{
		SKU: sku, SaleID: item.SaleID, Stock: found,
		Oversold: found.Oversold(), LostUpdates: found.LostUpdates(),
		Stranded: max(0, -found.LostUpdates()), Foreign: foreign,
	}, nil
}

// maxCategoryItems bounds the items in the category map.
const maxCategoryItems = 10_000

// Categories reads the category map from the database: the SKUs of each
// category. It is the costly read that a cache is for.
func (s *Service) Categories(ctx context.Context) (map[string][]string, error) {
	return s.store.categories(ctx, maxCategoryItems)
}
