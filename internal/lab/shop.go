package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/stock"
)

// Shop sells one item like a flash sale: read the stock, check it, work, write it back, write the
// order, all inside the subject's guard.
type Shop struct {
	w       *World
	initial int64
	buyers  atomic.Int64
}

var (
	errSoldOut = errors.New("sold out")
	errLost    = errors.New("the lock was lost before anything was sold")
)

// OpenShop starts a sale of the given number of units.
func (w *World) OpenShop(initial int64) *Shop {
	err := w.Side.Set(w.ctx, w.StockKey(), initial, 0).Err()
	Need(err == nil, "the stock could not be set: %v", err)
	w.Begins(w.StockKey(), strconv.FormatInt(initial, 10))
	return &Shop{w: w, initial: initial}
}

// Buyer buys one unit on behalf of a process, inside the guard (see Shop).
type Buyer struct {
	p     *Process
	owner string                  // unique, even among the buyers of one process
	work  time.Duration           // time between reading and writing the stock
	sees  func(m moment, n int64) // called at each moment; n is the stock that the buyer read or wrote

	Guard    stock.Guard
	Ordering func() error // called after the stock is written; may be nil
}

// Buyer returns a buyer whose work takes the given time.
func (s *Shop) Buyer(p *Process, work time.Duration) *Buyer {
	return &Buyer{p: p, owner: fmt.Sprintf("%s/%d", p.Name, s.buyers.Add(1)), Guard: p.StockGuard(nil), work: work,
		sees: func(m moment, _ int64) { s.saw(p, m) }}
}

// Buy buys one unit. It waits for the lock without a time limit.
func (b *Buyer) Buy() error { return b.BuyWithin(b.p.w.ctx) }

// BuyWithin buys one unit. It stops waiting for the lock when the context wait ends.
func (b *Buyer) BuyWithin(wait context.Context) error {
	w := b.p.w
	done, err := b.buy(wait)
	if done.Attempts > 1 {
		w.Record(WasRefused, b.p.Name)
	}
	if err != nil {
		w.Note(b.p.Name, "buys nothing: %s", Brief(err))
	}
	return err
}

// saw adds a moment of a buyer's purchase to the shop's counts and to the trace.
func (s *Shop) saw(p *Process, m moment) {
	w := s.w
	switch m {
	case works:
		w.enters(p.Name)
		w.Trace(p.Name, Hold, "is in the section")
	case wrote:
		w.Record(HasSold, p.Name)
		w.Note(p.Name, "has sold a unit")
	case leaves:
		w.leaves(p.Name)
		w.Trace(p.Name, Release, "leaves the section")
	}
}

// moment is something that happens in a sale.
type moment byte

// The moments of a sale, in their order.
const (
	enters  moment = iota // the section begins
	works                 // the work begins; in a nested subject, after the call to the helper
	read                  // the stock was read
	isTold                // the buyer learns that the lock is lost
	refused               // the stock refuses the write
	wrote                 // the stock was written
	leaves                // the work is over
	ends                  // the section is over
)

// buy returns when the sale has succeeded or failed.
func (b *Buyer) buy(wait context.Context) (guard.Stats, error) {
	w := b.p.w
	at, entry := stock.Location{Key: w.StockKey()}, w.Entry(b.owner)
	return b.Guard.Do(wait, at, entry, func(ctx context.Context, c stock.Counter) error {
		b.sees(enters, 0)
		defer b.sees(ends, 0)
		if w.Subject.Nested {
			// A helper takes the lock as the same owner while its caller holds it, and releases it.
			nothing := func(context.Context, stock.Counter) error { return nil }
			inner := context.WithValue(ctx, callKey{}, callOf(ctx)+1)
			if _, err := b.Guard.Do(inner, at, entry, nothing); err != nil {
				return err
			}
		}
		b.sees(works, 0)
		defer b.sees(leaves, 0)
		return b.sell(ctx, c)
	})
}

func (b *Buyer) sell(ctx context.Context, c stock.Counter) error {
	defer context.AfterFunc(ctx, func() { b.sees(isTold, 0) })()
	left, err := c.Get(ctx)
	if err != nil {
		return b.late(err)
	}
	b.sees(read, left)
	if left < 1 {
		return errSoldOut
	}
	if b.work > 0 {
		select {
		case <-time.After(b.work):
		case <-ctx.Done():
		case <-b.p.life.Done():
		}
	}
	if ctx.Err() != nil {
		return message.Errorf("%w: %w", errLost, context.Cause(ctx))
	}
	if err := c.Set(context.WithoutCancel(ctx), left-1); err != nil {
		return b.late(err)
	}
	if b.Ordering != nil {
		if err := b.Ordering(); err != nil {
			return err
		}
	}
	b.sees(wrote, left-1)
	return nil
}

// late returns err. If err says that the stock refused an outdated fencing token, late calls sees
// first.
func (b *Buyer) late(err error) error {
	if errors.Is(err, stock.ErrFenced) {
		b.sees(refused, 0)
	}
	return err
}

func (s *Shop) sold() int64 { return int64(s.w.Times(HasSold)) }

// Audit audits the sale at its end.
func (s *Shop) Audit() Verdict {
	left, err := s.w.Side.Get(s.w.ctx, s.w.StockKey()).Int64()
	Need(err == nil, "the stock could not be read: %v", err)
	return s.w.Audit(s.initial, left, s.sold())
}

// Audit checks that the number of units sold equals the reduction of the stock, and is at most the
// initial stock.
func (w *World) Audit(initial, left, sold int64) Verdict {
	missing := initial - left
	switch {
	case sold > initial:
		return w.Broke("", "%d of %d units were sold", sold, initial)
	case sold > missing:
		return w.Broke("", "%d units are sold, and the stock is down by %d", sold, missing)
	case sold < missing:
		return w.Broke("", "the stock is down by %d, and %d are sold", missing, sold)
	}
	return Holds.Because("%d sold, and the stock is down by %d", sold, missing)
}

// Together waits until all channels are closed.
func (w *World) Together(all ...<-chan struct{}) {
	for _, done := range all {
		w.Must(done, "the end of all buyers")
	}
}
