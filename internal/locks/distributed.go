package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Distributed guards sections by a Lock that all processes share. It is safe
// for concurrent use.
type Distributed struct {
	New    func(key string) Lock // a lock for one holder
	Policy Policy                // how to wait for it

	// WithOwner puts the owner where the lock looks for it; nil for a lock
	// that does not tell owners apart.
	WithOwner func(ctx context.Context, owner string) context.Context

	// NotHeld are the errors by which the lock says that a release came too
	// late: the lease had run out, and somebody else may hold the lock.
	NotHeld []error

	// Undo says that Unlock undoes an attempt that failed: the lock knows its
	// own, and removes nobody else's. Do then gives back what the attempt may
	// have taken all the same, with only the reply lost.
	//
	// Of a lock that counts its owner's holds only the outermost can be undone.
	// It is: the owner is new with each Do, and a failed attempt ends it.
	Undo bool

	undoing atomic.Int32 // calls of undo that have not ended yet
}

// maxUndoing bounds the calls of undo at once.
const maxUndoing = 64

// Do takes the lock as the policy says, runs section and gives the lock back.
func (d *Distributed) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	if d.WithOwner != nil {
		ctx = d.WithOwner(ctx, e.Owner)
	}
	t := &Turn{Key: e.Key, guard: d, ctx: ctx, wait: e.Wait, lock: d.New(e.Key), section: section, start: time.Now()}
	err := d.Policy.Run(t)
	if !t.entered {
		t.stats.Waited = time.Since(t.start)
	}
	return t.stats, err
}

// undo gives lock back after an attempt that failed. Nobody waits for it: if
// Redis hangs, the caller is to be told now. It ends within the time that
// Unlock gives itself; and where so many are under way that Redis is surely
// away, the lock is left to its ttl.
func (d *Distributed) undo(ctx context.Context, lock Lock) {
	if d.undoing.Add(1) > maxUndoing {
		d.undoing.Add(-1)
		return
	}
	go func() {
		defer d.undoing.Add(-1)
		_ = lock.Unlock(ctx) // "not held", most of the time
	}()
}

// Turn is one caller's turn at a lock: what a Policy works with. It is for one
// goroutine.
type Turn struct {
	Key string // of the lock

	guard   *Distributed
	ctx     context.Context
	wait    context.Context
	lock    Lock
	held    bool // the last attempt succeeded, and nothing was released since
	section func(context.Context) error
	start   time.Time
	entered bool
	stats   Stats
}

// Wait ends when the caller no longer wants to wait; its cause says why.
func (t *Turn) Wait() context.Context { return t.wait }

// Try asks for the lock once. A request that is under way is not cut off by
// the end of the wait, nor by that of the caller's context: a cut-off request
// may leave behind a lock that nobody knows of. After an error the turn is over.
func (t *Turn) Try() (bool, error) {
	if t.wait.Err() != nil {
		return false, context.Cause(t.wait)
	}
	t.stats.Attempts++
	ok, err := t.lock.TryLock(context.WithoutCancel(t.ctx))
	if err != nil && t.guard.Undo {
		t.guard.undo(t.ctx, t.lock)
	}
	t.held = ok
	return ok, err
}

// Block waits for the lock in the lock's own way, until the end of the wait. It
// returns ErrNoWait for a lock that has none. After an error the turn is over.
func (t *Turn) Block() error {
	l, ok := t.lock.(Waiter)
	if !ok {
		return fmt.Errorf("%w: %T", ErrNoWait, t.lock)
	}
	t.stats.Attempts++
	err := l.Lock(waitContext{t.wait, context.WithoutCancel(t.ctx)})
	t.held = err == nil
	return err
}

// waitContext ends with the wait, and has the caller's values.
type waitContext struct {
	context.Context
	caller context.Context // without an end of its own
}

func (c waitContext) Value(key any) any {
	if v := c.caller.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// Enter runs the section and releases the lock. It does not ask whether the
// lock is held: that is the policy's business.
func (t *Turn) Enter() error {
	entered := time.Now()
	if !t.entered {
		t.entered = true
		t.stats.Waited = entered.Sub(t.start)
	}
	err := t.guarded()
	t.stats.Held += time.Since(entered)
	return err
}

// guarded runs the section in the context by which the lock tells of a loss, and
// which carries its fencing token. To whoever enters without the lock it has
// nothing to tell.
func (t *Turn) guarded() error {
	defer t.release()
	ctx := context.WithoutCancel(t.ctx)
	if l, ok := t.lock.(interface {
		Context(context.Context) context.Context
	}); ok && t.held {
		ctx = l.Context(ctx)
	}
	if l, ok := t.lock.(interface{ Token() int64 }); ok && t.held {
		ctx = withToken(ctx, l.Token())
	}
	return t.section(ctx)
}

// release gives the lock back. That the lease had run out is no failure of the
// section, whose work is done, but it is put on record.
func (t *Turn) release() {
	err := t.lock.Unlock(t.ctx)
	if l, ok := t.lock.(interface{ Renewals() int }); ok && t.held {
		t.stats.Renewals += l.Renewals()
	}
	t.held = false
	switch {
	case err == nil:
	case slices.ContainsFunc(t.guard.NotHeld, func(lost error) bool { return errors.Is(err, lost) }):
		t.stats.Lost = true
	default:
		t.stats.Release = err
	}
}
