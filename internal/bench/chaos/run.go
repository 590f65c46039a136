package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/fleet"
	"oversell/internal/guard"
)

// Config is one sale under chaos.
type Config struct {
	Servers  *Servers
	Shops    []Shop  // all running
	Links    []*Link // by shop
	SKU      string  // of the item
	SaleID   string
	Strategy string
	Units    int64

	Seed     uint64
	Faults   []Fault
	Rate     int // buyers a second
	InFlight int // most buyers at one time
	Duration time.Duration
	TTL      time.Duration

	// HolderDies says that the lock of a killed or stopped shop expires with its ttl.
	HolderDies bool

	// Told is called with the outcome of each buyer and its time after the start, from many
	// goroutines.
	Told func(at time.Duration, o Outcome)

	// Remaining asks a shop how many units it has left.
	Remaining func(ctx context.Context) (int64, error)
}

// The values of report.Fault.From.
const (
	fromEnd   = "end"
	fromFault = "fault"
)

// sellsWithin is how long a sale may take to recover from a fault.
const sellsWithin = 2 * time.Second

// sample bounds the order ids that a report lists for each kind of error.
const sample = 10

// Run sells the item while it injects the faults, then sells what is left, and compares
// what the buyers were told with the orders. It returns the cause of ctx when ctx ends.
func Run(ctx context.Context, cfg Config) (*report.Chaos, error) {
	s := newSales()
	c := newCrowd(cfg, s)
	defer c.close()
	r := &report.Chaos{Seed: cfg.Seed}
	var buyers sync.WaitGroup
	coming, stop := context.WithCancel(ctx)
	defer stop()
	start := time.Now()
	buyers.Go(func() { cfg.arrive(coming, start, c, r) })
	err := cfg.inject(ctx, start, s, r)
	if err != nil {
		stop()
	}
	buyers.Wait()
	if err := errors.Join(err, context.Cause(ctx), cfg.crashed()); err != nil {
		return nil, err
	}
	if err := cfg.sellOut(ctx, c, r); err != nil {
		return nil, err
	}
	return r, cfg.audit(ctx, s, r)
}

// crashed returns the error of a shop that ended by itself.
func (cfg Config) crashed() error {
	for _, shop := range cfg.Shops {
		if err := shop.Err(); err != nil {
			return err
		}
	}
	return nil
}

// arrive sends buyers at the rate for the duration of the sale, and returns when all have
// their outcome.
func (cfg Config) arrive(ctx context.Context, start time.Time, c *crowd, r *report.Chaos) {
	var under sync.WaitGroup
	places := make(chan struct{}, cfg.InFlight)
	var repeated atomic.Int64
	defer func() {
		under.Wait()
		r.Repeated = repeated.Load()
	}()
	planned := int(cfg.Duration * time.Duration(cfg.Rate) / time.Second)
	for n := range planned {
		if guard.Sleep(ctx, time.Until(start.Add(time.Duration(n)*time.Second/time.Duration(cfg.Rate)))) != nil {
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
			if ctx.Err() == nil {
				cfg.Told(time.Since(start), o)
			}
		})
	}
}

// settle is how long the sale must go on after its recovery before the next fault.
const settle = 300 * time.Millisecond

// shortestStall is longer than the delay of a timer on an idle machine.
const shortestStall = 10 * time.Millisecond

// inject injects one fault after the other.
func (cfg Config) inject(ctx context.Context, start time.Time, s *sales, r *report.Chaos) error {
	w := &world{servers: cfg.Servers, shops: cfg.Shops, links: cfg.Links, sku: cfg.SKU}
	stalls := fleet.WatchStalls(shortestStall, nil)
	defer stalls.Stop()
	over := start.Add(cfg.Duration)
	for _, f := range cfg.Faults {
		t, _ := traitOf(f.Kind)
		d := report.Fault{
			Kind: string(f.Kind), Victim: f.victim(), Planned: f.At.Seconds(), For: f.For.Seconds(),
			Amount: float64(f.Amount.Milliseconds()), From: fromEnd, Limit: sellsWithin.Seconds(),
			StopsFor: f.StopsHolder(cfg.TTL),
		}
		if t.part == shop && cfg.HolderDies {
			d.Limit += cfg.TTL.Seconds()
		}
		if f.Kind == ShopKill {
			d.From = fromFault
		}
		if guard.Sleep(ctx, time.Until(start.Add(f.At))) != nil {
			return context.Cause(ctx)
		}
		if time.Now().Add(f.For).After(over) {
			d.Skipped = true
			r.Faults = append(r.Faults, d)
			continue
		}
		if err := cfg.one(ctx, w, f, start, s, stalls, &d); err != nil {
			return err
		}
		r.Faults = append(r.Faults, d)
		r.StopsHolder = r.StopsHolder || d.StopsFor
		if guard.Sleep(ctx, settle) != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// endTimeout bounds the end of a fault.
const endTimeout = 30 * time.Second

// one injects one fault, and waits until the item is sold again or buyers have given up.
// Its error means that the sale cannot go on.
func (cfg Config) one(
	ctx context.Context, w *world, f Fault, start time.Time, s *sales, stalls *fleet.StallWatch, d *report.Fault,
) error {
	before, began := s.acknowledged(), time.Now()
	d.At = began.Sub(start).Seconds()
	again, from, stalled := s.next(began), began, stalls.Total()
	end, err := w.begin(ctx, f)
	if err != nil {
		d.Error = err.Error()
	}
	if guard.Sleep(ctx, f.For) != nil {
		return context.Cause(ctx) // everything is about to stop
	}
	if end != nil {
		ending, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		if err := end(ending); err != nil {
			return errors.Join(context.Cause(ctx), fmt.Errorf("ending the fault %s: %w", f, err))
		}
	}
	d.Lasted, d.SoldIn = time.Since(began).Seconds(), s.acknowledged()-before
	if d.From == fromEnd {
		from, stalled = time.Now(), stalls.Total()
		again = s.next(from)
	}
	select {
	case at := <-again:
		d.Again = new(max(0, at.Sub(from).Seconds()))
	case <-time.After(patience):
	case <-time.After(time.Until(start.Add(cfg.Duration + patience))):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	d.Stalled = (stalls.Total() - stalled).Seconds()
	return cfg.crashed()
}
