package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"oversell/internal/locks"
	"oversell/internal/stock"
)

// shop sells one item as the flash sale does: read the stock, check, work,
// write it back, write the order. The guard around it is the column's.
type shop struct {
	w       *World
	initial int64

	mu       sync.Mutex
	orders   int64
	attempts int // sections begun
	buyers   int
}

var (
	errSoldOut = errors.New("sold out")
	errLost    = errors.New("the lock was lost before anything was sold")
)

// open starts the sale.
func (w *World) open(initial int64) *shop {
	err := w.side.Set(w.ctx, w.stockKey(), initial, 0).Err()
	need(err == nil, "the stock could not be set: %v", err)
	w.begins(w.stockKey(), keyState{kind: "string", words: []string{strconv.FormatInt(initial, 10)}, left: -1})
	return &shop{w: w, initial: initial}
}

// stock is where the item's stock is kept.
func (w *World) stock() stock.Place { return stock.Place{Key: w.stockKey()} }

// buyer buys on behalf of a process.
type buyer struct {
	s     *shop
	p     *Process
	owner string // unique: two buyers of one process are two
	guard stock.Guard

	work     func(ctx context.Context) // between reading and writing; may be nil
	ordering func() error              // before the order is written; may be nil
}

// buyer returns one whose work takes that long.
func (s *shop) buyer(p *Process, work time.Duration) *buyer {
	owner := fmt.Sprintf("%s/%d", p.name, s.count(&s.buyers))
	b := &buyer{s: s, p: p, owner: owner, guard: s.w.column.stockGuard(p, nil)}
	b.work = func(ctx context.Context) {
		timer := time.NewTimer(work)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-p.life.Done():
		}
	}
	return b
}

// buy buys one unit, and waits for its turn for as long as it takes.
func (b *buyer) buy() error { return b.buyWithin(b.s.w.ctx) }

// buyWithin is buy for as long as wait lives.
func (b *buyer) buyWithin(wait context.Context) error {
	w := b.s.w
	e := locks.Entry{Key: w.lockKey, Owner: b.owner, Wait: wait}
	done, err := b.guard.Do(w.ctx, w.stock(), e, b.section)
	if done.Attempts > 1 {
		w.deeds.add(wasRefused, b.p.name)
	}
	if err != nil {
		w.Note(b.p.name, "buys nothing: %s", brief(err))
	}
	return err
}

// entry is a process' wish to enter, for as long as it takes.
func (w *World) entry(p *Process) locks.Entry {
	return locks.Entry{Key: w.lockKey, Owner: p.name + "/1", Wait: w.ctx}
}

func (b *buyer) section(ctx context.Context, c stock.Counter) error {
	w := b.s.w
	b.s.count(&b.s.attempts)
	called := w.history.call()
	w.history.acquired(b.p.name, called)
	w.trace.add(b.p.name, Hold, "is in the section")
	defer func() {
		w.history.released(b.p.name)
		w.trace.add(b.p.name, Release, "leaves the section")
	}()
	left, err := c.Get(ctx)
	if err != nil {
		return err
	}
	if left < 1 {
		return errSoldOut
	}
	if b.work != nil {
		b.work(ctx)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", errLost, context.Cause(ctx))
	}
	if err := c.Set(context.WithoutCancel(ctx), left-1); err != nil {
		return err
	}
	if b.ordering != nil {
		if err := b.ordering(); err != nil {
			return err
		}
	}
	b.s.sold()
	w.deeds.add(hasSold, b.p.name)
	w.Note(b.p.name, "has sold a unit")
	return nil
}

// count adds one to n, and returns the sum.
func (s *shop) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	return *n
}

func (s *shop) sold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders++
}

// audit counts: what was sold must be what is missing, and no more than there was.
func (s *shop) audit() verdict {
	left, err := s.w.side.Get(s.w.ctx, s.w.stockKey()).Int64()
	need(err == nil, "the stock could not be read: %v", err)
	s.mu.Lock()
	sold, missing := s.orders, s.initial-left
	s.mu.Unlock()
	switch {
	case sold > s.initial:
		return s.w.broke("", "%d of %d units were sold", sold, s.initial)
	case sold > missing:
		return s.w.broke("", "%d units are sold, and the stock is down by %d", sold, missing)
	case sold < missing:
		return s.w.broke("", "the stock is down by %d, and %d are sold", missing, sold)
	}
	return holds("%d sold, and the stock is down by %d", sold, missing)
}

// together waits until all have returned.
func (w *World) together(all ...<-chan struct{}) {
	for _, done := range all {
		w.must(done, "the end of all buyers")
	}
}
