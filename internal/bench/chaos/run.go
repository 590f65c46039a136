package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Config is one sale in chaos.
type Config struct {
	Servers  *Servers
	Shops    []Shop  // that all run
	Links    []*Link // by shop
	SKU      string  // that is on sale
	SaleID   string
	Strategy string
	Units    int64

	Seed     uint64
	Faults   []Fault
	Rate     int // buyers a second
	InFlight int // buyers who may be under way at one time
	Duration time.Duration
	TTL      time.Duration

	// HolderDies says that the ttl has to run out where a shop was killed or stopped.
	HolderDies bool

	// Told is called with the outcome of each buyer, and with the time at which it is
	// known, after the beginning. It is called from many goroutines.
	Told func(at time.Duration, o Outcome)

	// Remaining asks a shop how many units it has left.
	Remaining func(ctx context.Context) (int64, error)

	Patience time.Duration // how long a buyer goes on trying; default 30 s
}

func (c Config) patience() time.Duration { return cmp.Or(c.Patience, patience) }

// Done is what became of a fault.
type Done struct {
	Kind    Kind    `json:"kind"`
	Victim  string  `json:"victim"`
	Planned float64 `json:"planned_s"`           // when it was to begin, after the sale did
	For     float64 `json:"for_s"`               // how long it was to last; 0: it is over as soon as it is done
	Amount  float64 `json:"amount_ms,omitempty"` // how late replies are, or how long an INSERT takes

	At       float64  `json:"at_s"`           // when it began
	Lasted   float64  `json:"lasted_s"`       // until everything that it struck was there again
	SoldIn   int64    `json:"sold_meanwhile"` // orders that buyers were told of from its beginning to its end
	From     string   `json:"from"`           // what the next is counted from: the end, or the fault itself
	Again    *float64 `json:"sold_again_s"`   // until a buyer was told of an order that was made after that; nil: nobody was
	Limit    float64  `json:"limit_s"`        // within which it has to be
	Stalled  float64  `json:"stalled_s"`      // of that time, how much the machine did not give to the bench, and presumably not to the shops
	Skipped  bool     `json:"skipped,omitempty"`
	Error    string   `json:"error,omitempty"` // why it could not be done
	StopsFor bool     `json:"stops_holder,omitempty"`
}

// Late reports whether the sale took too long to go on. What the machine was too busy for
// does not count.
func (d Done) Late() bool { return !d.Skipped && (d.Again == nil || *d.Again-d.Stalled > d.Limit) }

// From what it is counted how long the sale took to go on.
const (
	fromEnd   = "end"
	fromFault = "fault"
)

// sellsWithin is how long a sale may take to go on after a fault.
const sellsWithin = 2 * time.Second

// sample bounds the names of orders that a report has of each kind of trouble.
const sample = 10

// Result is what came of a sale in chaos.
type Result struct {
	Seed   uint64 `json:"seed"`
	Faults []Done `json:"faults"`

	Acknowledged int64 `json:"acknowledged"` // buyers who were told of an order, those at the end included
	BoughtAtEnd  int64 `json:"bought_at_end"`
	Repeated     int64 `json:"repeated"` // requests beyond the first of a buyer

	Sold         int64    `json:"sold"` // units in order rows
	Missing      int64    `json:"acknowledged_missing"`
	Duplicates   int64    `json:"duplicates"`
	Unreported   int64    `json:"unreported"`
	Foreign      int64    `json:"foreign"` // units in orders of a sale that is not this one
	Oversold     int64    `json:"oversold"`
	Remaining    int64    `json:"remaining"` // units that are still on sale when nobody buys any more
	Stranded     int64    `json:"stranded"`
	SoldOut      bool     `json:"sold_out"` // the last units were bought in the end
	StopsHolder  bool     `json:"stops_holder"`
	MissingIDs   []string `json:"missing_orders,omitempty"`
	DuplicateIDs []string `json:"duplicate_orders,omitempty"`

	Planned, Sent, Dropped int64 `json:"-"`
}

// Run sells the item while the faults happen, then sells what is left of it, and compares
// what the buyers were told with the orders. When ctx ends it returns its cause at once.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	s := newSales()
	c := newCrowd(cfg, s)
	defer c.close()
	r := &Result{Seed: cfg.Seed}
	var buyers sync.WaitGroup
	coming, stop := context.WithCancel(ctx)
	defer stop()
	start := time.Now()
	buyers.Go(func() { cfg.come(coming, start, c, r) })
	err := cfg.strike(ctx, start, s, r)
	if err != nil {
		stop()
	}
	buyers.Wait()
	if err := errors.Join(err, ended(ctx), cfg.fallen()); err != nil {
		return nil, err
	}
	if err := cfg.sellOut(ctx, c, r); err != nil {
		return nil, err
	}
	if err := cfg.audit(ctx, s, r); err != nil {
		return nil, err
	}
	return r, nil
}

func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// fallen returns an error if a shop has ended that nobody ended.
func (cfg Config) fallen() error {
	for _, shop := range cfg.Shops {
		if err := shop.Err(); err != nil {
			return err
		}
	}
	return nil
}

// come has buyers come at the rate, for as long as the sale lasts, and returns when each
// of them has left.
func (cfg Config) come(ctx context.Context, start time.Time, c *crowd, r *Result) {
	var under sync.WaitGroup
	defer under.Wait()
	places := make(chan struct{}, cfg.InFlight)
	var repeated atomic.Int64
	defer func() {
		under.Wait()
		r.Repeated = repeated.Load()
	}()
	planned := int(cfg.Duration * time.Duration(cfg.Rate) / time.Second)
	for n := range planned {
		if !sleep(ctx, time.Until(start.Add(time.Duration(n)*time.Second/time.Duration(cfg.Rate)))) {
			return
		}
		r.Planned++
		select {
		case places <- struct{}{}:
		default:
			r.Dropped++
			continue
		}
		r.Sent++
		under.Go(func() {
			defer func() { <-places }()
			o := c.buy(ctx, n, keyOf(n))
			repeated.Add(int64(o.Attempts - 1))
			if cfg.Told != nil && ctx.Err() == nil {
				cfg.Told(time.Since(start), o)
			}
		})
	}
}

// settle is how long the sale must go on before the next fault, when it took long to go on
// after the last one.
const settle = 300 * time.Millisecond

// strike does one fault after the other.
func (cfg Config) strike(ctx context.Context, start time.Time, s *sales, r *Result) error {
	w := &world{servers: cfg.Servers, shops: cfg.Shops, links: cfg.Links, sku: cfg.SKU}
	p := newPace()
	defer p.end()
	over := start.Add(cfg.Duration)
	for _, f := range cfg.Faults {
		t, _ := traitOf(f.Kind)
		d := Done{
			Kind: f.Kind, Victim: f.victim(), Planned: f.At.Seconds(), For: f.For.Seconds(),
			Amount: float64(f.Amount.Milliseconds()), From: fromEnd, Limit: sellsWithin.Seconds(), StopsFor: f.StopsHolder(cfg.TTL),
		}
		if t.part == shop && cfg.HolderDies {
			d.Limit += cfg.TTL.Seconds()
		}
		if f.Kind == ShopKill {
			d.From = fromFault
		}
		if !sleep(ctx, time.Until(start.Add(f.At))) {
			return context.Cause(ctx)
		}
		if time.Now().Add(f.For).After(over) {
			d.Skipped = true
			r.Faults = append(r.Faults, d)
			continue
		}
		if err := cfg.one(ctx, w, f, start, s, p, &d); err != nil {
			return err
		}
		r.Faults = append(r.Faults, d)
		r.StopsHolder = r.StopsHolder || d.StopsFor
		if !sleep(ctx, settle) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// endTimeout bounds the end of a fault.
const endTimeout = 30 * time.Second

// one does one fault, and waits until the item is sold again, or the buyers have lost
// their patience. Its error means that the sale cannot go on.
func (cfg Config) one(ctx context.Context, w *world, f Fault, start time.Time, s *sales, p *pace, d *Done) error {
	before, began := s.acknowledged(), time.Now()
	d.At = began.Sub(start).Seconds()
	again, from, stalled := s.next(began), began, p.stalled()
	end, err := w.begin(ctx, f)
	if err != nil {
		d.Error = err.Error()
	}
	if !sleep(ctx, f.For) {
		return context.Cause(ctx) // everything is about to be stopped
	}
	if end != nil {
		ending, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		if err := end(ending); err != nil {
			return errors.Join(ended(ctx), fmt.Errorf("ending the fault %s: %w", f, err))
		}
	}
	d.Lasted, d.SoldIn = time.Since(began).Seconds(), s.acknowledged()-before
	if d.From == fromEnd {
		from, stalled = time.Now(), p.stalled()
		again = s.next(from)
	}
	timer := time.NewTimer(cfg.patience())
	defer timer.Stop()
	select {
	case at := <-again:
		d.Again = new(max(0, at.Sub(from).Seconds()))
	case <-timer.C:
	case <-time.After(time.Until(start.Add(cfg.Duration + cfg.patience()))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.Stalled = (p.stalled() - stalled).Seconds()
	return cfg.fallen()
}
