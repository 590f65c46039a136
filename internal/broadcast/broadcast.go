// Package broadcast ends all waits for a key at once when the waits have become pointless, for
// example because an item is sold out.
package broadcast

import (
	"context"
	"sync"
	"time"
)

// Interval is the time between two calls to the look function for a key with waiters. If there are
// more than fullPace such keys, the time is longer, so that the total rate stays the same.
const Interval = 20 * time.Millisecond

// fullPace is the largest number of keys for which look is still called every Interval.
const fullPace = 8

// Broadcaster ends the waits of this process for a key as soon as its look function returns a
// cause. It runs one goroutine for each key with waiters, regardless of their number. It is safe
// for concurrent use.
type Broadcaster struct {
	look func(ctx context.Context, key string) error

	mu      sync.Mutex
	closed  error // the cause that was passed to Close
	keys    map[string]*waiters
	looking sync.WaitGroup
}

// waiters contains the waiters for one key.
type waiters struct {
	all  map[*Waiter]bool
	stop context.CancelFunc // ends the goroutine that calls look
}

// New returns a Broadcaster. look must return nil while there is a reason to wait for the key, and
// otherwise the cause with which the waits are to end.
func New(look func(ctx context.Context, key string) error) *Broadcaster {
	return &Broadcaster{look: look, keys: make(map[string]*waiters)}
}

// Waiter is one wait. It is not safe for concurrent use.
type Waiter struct {
	from   *Broadcaster
	cancel context.CancelCauseFunc
	timer  *time.Timer
	key    string
}

// Begin returns a context for a wait. It ends with the cause from Close, or with the cause late
// after limit, and, once the caller has called Attend, also with the cause from the look function or
// from End. The caller must call Done when it no longer waits.
func (b *Broadcaster) Begin(ctx context.Context, limit time.Duration, late error) (context.Context, *Waiter) {
	wait, cancel := context.WithCancelCause(ctx)
	// There may be thousands of waits at a time, and a timer costs less than a second context
	// with a deadline.
	w := &Waiter{from: b, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(late) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.join(w, noKey)
	return wait, w
}

// noKey is the key of waiters that do not know their key yet. look is not called for it.
const noKey = ""

// Attend makes the caller wait for the key from now on.
func (w *Waiter) Attend(key string) {
	if w.key == key {
		return
	}
	w.from.mu.Lock()
	defer w.from.mu.Unlock()
	w.from.leave(w)
	w.from.join(w, key)
}

// Done ends the wait.
func (w *Waiter) Done() {
	w.from.mu.Lock()
	w.from.leave(w)
	w.from.mu.Unlock()
	w.timer.Stop()
	w.cancel(nil)
}

// join adds a waiter to the waiters for a key. The caller must hold b.mu.
func (b *Broadcaster) join(w *Waiter, key string) {
	if b.closed != nil {
		w.cancel(b.closed)
		return
	}
	w.key = key
	c := b.keys[key]
	if c == nil {
		c = &waiters{all: make(map[*Waiter]bool), stop: func() {}}
		if key != noKey {
			var ctx context.Context
			ctx, c.stop = context.WithCancel(context.Background())
			b.looking.Go(func() { b.watch(ctx, key) })
		}
		b.keys[key] = c
	}
	c.all[w] = true
}

// leave removes a waiter from the waiters for its key. The caller must hold b.mu.
func (b *Broadcaster) leave(w *Waiter) {
	c := b.keys[w.key]
	if c == nil || !c.all[w] {
		return
	}
	if delete(c.all, w); len(c.all) == 0 {
		c.stop()
		delete(b.keys, w.key)
	}
}

// pace returns the time until look is called again for a key.
func (b *Broadcaster) pace() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Interval * time.Duration(max(1, (len(b.keys)+fullPace-1)/fullPace))
}

func (b *Broadcaster) watch(ctx context.Context, key string) {
	timer := time.NewTimer(b.pace())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(b.pace())
		if cause := b.look(ctx, key); cause != nil {
			b.End(key, cause)
		}
	}
}

// End ends all current waits for the key.
func (b *Broadcaster) End(key string, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.keys[key]; c != nil {
		for w := range c.all {
			w.cancel(cause)
		}
	}
}

// Close ends all waits with cause, including those that begin later, and waits for the
// Broadcaster's goroutines to return.
func (b *Broadcaster) Close(cause error) {
	b.mu.Lock()
	b.closed = cause
	for _, c := range b.keys {
		c.stop()
		for w := range c.all {
			w.cancel(cause)
		}
	}
	clear(b.keys)
	b.mu.Unlock()
	b.looking.Wait()
}
