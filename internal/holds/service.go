package holds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"gorm.io/gorm"

	"oversell/internal/message"
	"oversell/internal/payment"
	"oversell/internal/stock"
)

// Config configures a Service.
type Config struct {
	DB       *gorm.DB         // with the tables of Migrate and stock.Migrate
	Stages   map[string]Stage // by name, such as h3_claim; the parts before the underscore must differ
	Payments payment.Provider // nil: nothing can be paid
	Ledger   string           // the name of the ledger of Payments (see OwnLedger), at most 255 bytes
	TTL      time.Duration    // the ttl of a hold whose item sets none; 0: DefaultTTL
	Max      time.Duration    // the longest that a hold may last in all when it is extended; 0: three ttls
	Limit    int64            // most units that one buyer may have in a sale whose item sets no limit; 0: unlimited
	Price    int64            // the price of one unit, in minor units of the currency; 0: DefaultPrice
	Currency string           // three capital letters; "": EUR
	Sweep    time.Duration    // mean time between two sweeps; 0: DefaultSweep
	Settle   time.Duration    // how long after its start an interrupted payment is settled; 0: DefaultSettle
	Logger   *slog.Logger     // nil: slog.Default

	// Entries reads the entries of a sale in the provider's ledger, the oldest first, and their
	// number. If there are more than the given maximum, it returns only the number. It is nil if the
	// provider is not in this process.
	Entries func(saleID string, most int) (entries []payment.Entry, number int)
}

// The defaults of a Config.
const (
	DefaultTTL   = 10 * time.Minute
	DefaultPrice = 1_000
	DefaultSweep = time.Second
	// DefaultSettle is longer than an uninterrupted payment takes; see payTimeout.
	DefaultSettle = 30 * time.Second
)

// The errors of a Service, wrapped. It also returns stock.ErrInvalid, stock.ErrUnknownItem,
// stock.ErrLocation for an item that is not sold by holds, and the errors of its Stage.
var (
	ErrUnknownStage = errors.New("unknown stage of holds")
	ErrOtherStage   = errors.New("the sale has begun with another stage of holds")
	ErrUnknownOrder = stock.ErrUnknownOrder
)

// Service sells items by holds. It is safe for concurrent use. The caller must close it.
type Service struct {
	cfg      Config
	prefixes map[string]string // the name of a stage by the prefix of its holds' ids
	log      *slog.Logger
	sql      Dialect  // of cfg.DB
	sales    sync.Map // the name of a stage by the id of its sale; sweeps remove sales that are over

	cancel     context.CancelFunc
	background sync.WaitGroup
}

var _ stock.Holds = (*Service)(nil)

// New returns a Service, and starts its sweeps and the settlement of payments.
func New(cfg Config) *Service {
	cfg.TTL = cmp.Or(cfg.TTL, DefaultTTL)
	cfg.Price = cmp.Or(cfg.Price, DefaultPrice)
	cfg.Currency = cmp.Or(cfg.Currency, "EUR")
	cfg.Sweep = cmp.Or(cfg.Sweep, DefaultSweep)
	cfg.Settle = cmp.Or(cfg.Settle, DefaultSettle)
	s := &Service{cfg: cfg, prefixes: make(map[string]string), log: cmp.Or(cfg.Logger, slog.Default()),
		sql: DialectOf(cfg.DB)}
	for name := range cfg.Stages {
		s.prefixes[prefix(name)] = name
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.background.Go(func() { s.sweepAll(ctx) })
	if cfg.Payments != nil {
		s.background.Go(func() { s.settleAll(ctx) })
	}
	return s
}

// Close ends the sweeps and the settlement of payments.
func (s *Service) Close() {
	s.cancel()
	s.background.Wait()
}

// prefix returns the prefix of the ids of a stage's holds. With it, stageOf finds the stage.
func prefix(stage string) string {
	short, _, _ := strings.Cut(stage, "_")
	return short
}

// newID returns an id for a hold. The prefix is followed by the time, because each random id would
// touch a different page of the database's index.
func newID(stage string) string {
	id := uuid.Must(uuid.NewV7())
	return fmt.Sprintf("%s-%x", prefix(stage), id[:])
}

// maxSales is how many times a request is tried if another sale begins in the meantime.
const maxSales = 3

// Hold takes units for a buyer, in the current sale of an item. The hold expires after the item's
// HoldSeconds, or Config.TTL. A request with a used key returns the first hold, or ErrNotHeld if that
// has ended. Hold sets the request's ID, SaleID, Limit and TTL.
func (s *Service) Hold(ctx context.Context, stageName string, r Request) (h Hold, err error) {
	stage, ok := s.cfg.Stages[stageName]
	if !ok {
		return Hold{}, fmt.Errorf("%w: %q", ErrUnknownStage, stageName)
	}
	same := stock.Request{SKU: r.SKU, Quantity: r.Quantity, IdempotencyKey: r.Key}
	if err := cmp.Or(same.Check(), stock.CheckBuyer(r.Buyer)); err != nil {
		return Hold{}, err
	}
	if ctx.Err() != nil {
		return Hold{}, context.Cause(ctx)
	}
	ctx, cancel := untilDone(ctx)
	defer cancel()
	for range maxSales {
		var item stock.Item
		if item, err = s.join(ctx, r.SKU, stageName); err == nil {
			r.ID, r.SaleID, r.TTL, r.Limit = newID(stageName), item.SaleID, s.ttl(item), cmp.Or(item.Limit, s.cfg.Limit)
			h, err = stage.Take(ctx, r)
		}
		if !errors.Is(err, ErrSaleOver) {
			break
		}
	}
	if err == nil && r.Key != "" && h.Status != Held { // an earlier request had the key
		err = NotHeldError{h.Status}
	}
	if err != nil {
		return Hold{}, message.Errorf("holding %d of %s: %w", r.Quantity, r.SKU, err)
	}
	return h, nil
}

// untilDone returns a context for several writes that belong together. A buyer who leaves must not
// interrupt the work between two of them.
func untilDone(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), payTimeout)
}

// Get returns a hold as it is now, or ErrUnknownHold.
func (s *Service) Get(ctx context.Context, id string) (Hold, error) {
	h, _, err := s.lookUpHold(ctx, id)
	return h, err
}

// Extend makes a hold expire as late as if it began now, but at most Config.Max after it began. It
// returns ErrUnknownHold, ErrToken, ErrNotHeld, or ErrExtended if the hold already has the longest
// duration.
func (s *Service) Extend(ctx context.Context, id string, token int64) (Hold, error) {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	h, stage, err := s.lookUpHold(ctx, id)
	if err != nil {
		return Hold{}, err
	}
	item, err := s.item(ctx, h.SKU)
	if err == nil {
		h, err = stage.Extend(ctx, id, token, s.ttl(item), cmp.Or(s.cfg.Max, 3*s.ttl(item)))
	}
	if err != nil {
		return Hold{}, fmt.Errorf("extending hold %s: %w", id, err)
	}
	return h, nil
}

// Release returns the units of a hold to the stock. It returns ErrUnknownHold, ErrToken or
// ErrNotHeld.
func (s *Service) Release(ctx context.Context, id string, token int64) error {
	ctx, cancel := untilDone(ctx)
	defer cancel()
	stage, err := s.stageOf(id)
	if err == nil {
		err = stage.Release(ctx, id, token)
	}
	if err != nil {
		return fmt.Errorf("releasing hold %s: %w", id, err)
	}
	return nil
}

func (s *Service) lookUpHold(ctx context.Context, id string) (Hold, Stage, error) {
	stage, err := s.stageOf(id)
	if err != nil {
		return Hold{}, nil, err
	}
	h, err := stage.Look(ctx, id)
	if err != nil {
		return Hold{}, nil, fmt.Errorf("looking up hold %s: %w", id, err)
	}
	return h, stage, nil
}

// stageOf returns the stage that has issued an id, or ErrUnknownHold if there is none.
func (s *Service) stageOf(id string) (Stage, error) {
	begin, _, _ := strings.Cut(id, "-")
	stage, ok := s.cfg.Stages[s.prefixes[begin]]
	if !ok || !idForm.MatchString(id) {
		return nil, ErrUnknownHold
	}
	return stage, nil
}

var idForm = regexp.MustCompile(`^[\x21-\x7e]{1,36}$`)
