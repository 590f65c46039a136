// Package notice tells those who wait for a key that waiting has become
// pointless, such as for an item that has been sold out meanwhile.
package notice

import (
	"context"
	"sync"
	"time"
)

// Interval is how often a key is looked at while anybody waits for it.
const Interval = 20 * time.Millisecond

// Board ends the waits of this process for a key as soon as its look function
// says that they are over. One goroutine a key looks, however many wait, and
// none when nobody waits. It is safe for concurrent use.
type Board struct {
	look func(ctx context.Context, key string) error

	mu      sync.Mutex
	closed  error // what Close was called with
	keys    map[string]*crowd
	looking sync.WaitGroup
}

// crowd has those who wait for one key.
type crowd struct {
	waiting map[*Waiter]struct{}
	stop    context.CancelFunc // ends the goroutine that looks
}

// New returns a Board. Look returns nil while there is a reason to wait for
// the key, and otherwise the cause with which the waits end.
func New(look func(ctx context.Context, key string) error) *Board {
	return &Board{look: look, keys: make(map[string]*crowd)}
}

// Wait returns a context that ends with the cause from the look function or
// Tell, with that of Close, or with late after limit. The caller must call
// done when it no longer waits.
func (b *Board) Wait(ctx context.Context, key string, limit time.Duration, late error) (wait context.Context, done func()) {
	w := b.Begin(ctx, limit, late)
	w.Attend(key)
	return w.Context(), w.Done
}

// Waiter is one wait. It is for one goroutine.
type Waiter struct {
	board  *Board
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	key    string
}

// Begin is Wait for a caller that does not know yet for which key it waits. Until
// it calls Attend its wait ends with Close, or with late after limit. The caller
// must call Done when it no longer waits.
func (b *Board) Begin(ctx context.Context, limit time.Duration, late error) *Waiter {
	wait, cancel := context.WithCancelCause(ctx)
	// Not a context with a deadline around the other: thousands wait at a time,
	// and a second context costs each more than a timer does.
	w := &Waiter{board: b, ctx: wait, cancel: cancel}
	w.timer = time.AfterFunc(limit, func() { cancel(late) })
	b.join(w, undecided)
	return w
}

// undecided is the key of those who do not know theirs yet. Nobody looks at it.
const undecided = ""

// Context ends when the wait does.
func (w *Waiter) Context() context.Context { return w.ctx }

// Attend says for which key the caller waits, from now on.
func (w *Waiter) Attend(key string) {
	w.board.leave(w)
	w.board.join(w, key)
}

// Done ends the wait.
func (w *Waiter) Done() {
	w.board.leave(w)
	w.timer.Stop()
	w.cancel(nil)
}

func (b *Board) join(w *Waiter, key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed != nil {
		w.cancel(b.closed)
		return
	}
	w.key = key
	c := b.keys[key]
	if c == nil {
		c = &crowd{waiting: make(map[*Waiter]struct{}), stop: func() {}}
		if key != undecided {
			var ctx context.Context
			ctx, c.stop = context.WithCancel(context.Background())
			b.looking.Go(func() { b.watch(ctx, key) })
		}
		b.keys[key] = c
	}
	c.waiting[w] = struct{}{}
}

func (b *Board) leave(w *Waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.keys[w.key]
	if c == nil {
		return
	}
	delete(c.waiting, w)
	if len(c.waiting) == 0 {
		c.stop()
		delete(b.keys, w.key)
	}
}

func (b *Board) watch(ctx context.Context, key string) {
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if cause := b.look(ctx, key); cause != nil {
			b.Tell(key, cause)
		}
	}
}

// Tell ends the wait of all who wait for the key now.
func (b *Board) Tell(key string, cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.keys[key]; c != nil {
		for w := range c.waiting {
			w.cancel(cause)
		}
	}
}

// Close ends every wait, those that begin later too, with cause, and returns
// when no goroutine of the board is left.
func (b *Board) Close(cause error) {
	b.mu.Lock()
	b.closed = cause
	for _, c := range b.keys {
		c.stop()
		for w := range c.waiting {
			w.cancel(cause)
		}
	}
	clear(b.keys)
	b.mu.Unlock()
	b.looking.Wait()
}
