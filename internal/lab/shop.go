package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"oversell/internal/stock"
)

// Shop sells one item as the flash sale does: read the stock, check, work, write it
// back, write the order, all of it inside the subject's guard.
type Shop struct {
	w       *World
	initial int64

	mu       sync.Mutex
	Orders   int64
	Attempts int // sections begun
	buyers   int
}

var (
	errSoldOut = errors.New("sold out")
	errLost    = errors.New("the lock was lost before anything was sold")
)

// OpenShop starts the sale.
func (w *World) OpenShop(initial int64) *Shop {
	err := w.Side.Set(w.ctx, w.StockKey(), initial, 0).Err()
	Need(err == nil, "the stock could not be set: %v", err)
	w.Begins(w.StockKey(), strconv.FormatInt(initial, 10))
	return &Shop{w: w, initial: initial}
}

// Buyer buys on behalf of a process.
type Buyer struct {
	s     *Shop
	p     *Process
	owner string // unique: two buyers of one process are two
	Guard stock.Guard

	work     time.Duration // between reading and writing
	Ordering func() error  // before the order is written; may be nil
}

// Buyer returns a buyer whose work takes that long.
func (s *Shop) Buyer(p *Process, work time.Duration) *Buyer {
	owner := fmt.Sprintf("%s/%d", p.Name, s.count(&s.buyers))
	return &Buyer{s: s, p: p, owner: owner, Guard: p.StockGuard(nil), work: work}
}

// Buy buys one unit, and waits for its turn for as long as it takes.
func (b *Buyer) Buy() error { return b.BuyWithin(b.s.w.ctx) }

// BuyWithin buys one unit, and waits no longer than the context wait.
func (b *Buyer) BuyWithin(wait context.Context) error {
	w := b.s.w
	done, err := b.Guard.Do(wait, stock.Location{Key: w.StockKey()}, w.Entry(b.owner), b.section)
	if done.Attempts > 1 {
		w.Record(WasRefused, b.p.Name)
	}
	if err != nil {
		w.Note(b.p.Name, "buys nothing: %s", Brief(err))
	}
	return err
}

func (b *Buyer) section(ctx context.Context, c stock.Counter) error {
	w := b.s.w
	b.s.count(&b.s.Attempts)
	leave := w.Enters(b.p.Name)
	w.trace.add(b.p.Name, Hold, "is in the section")
	defer func() {
		leave()
		w.trace.add(b.p.Name, Release, "leaves the section")
	}()
	left, err := c.Get(ctx)
	if err != nil {
		return err
	}
	if left < 1 {
		return errSoldOut
	}
	select {
	case <-time.After(b.work):
	case <-ctx.Done():
	case <-b.p.life.Done():
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errLost, context.Cause(ctx))
	}
	if err := c.Set(context.WithoutCancel(ctx), left-1); err != nil {
		return err
	}
	if b.Ordering != nil {
		if err := b.Ordering(); err != nil {
			return err
		}
	}
	b.s.mu.Lock()
	b.s.Orders++
	b.s.mu.Unlock()
	w.Record(HasSold, b.p.Name)
	w.Note(b.p.Name, "has sold a unit")
	return nil
}

func (s *Shop) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	return *n
}

// Audit compares: the units sold must be the units missing, and no more than there were.
func (s *Shop) Audit() Verdict {
	left, err := s.w.Side.Get(s.w.ctx, s.w.StockKey()).Int64()
	Need(err == nil, "the stock could not be read: %v", err)
	s.mu.Lock()
	sold, missing := s.Orders, s.initial-left
	s.mu.Unlock()
	switch {
	case sold > s.initial:
		return s.w.Broke("", "%d of %d units were sold", sold, s.initial)
	case sold > missing:
		return s.w.Broke("", "%d units are sold, and the stock is down by %d", sold, missing)
	case sold < missing:
		return s.w.Broke("", "the stock is down by %d, and %d are sold", missing, sold)
	}
	return Holds.Because("%d sold, and the stock is down by %d", sold, missing)
}

// Together waits until all have returned.
func (w *World) Together(all ...<-chan struct{}) {
	for _, done := range all {
		w.Must(done, "the end of all buyers")
	}
}
