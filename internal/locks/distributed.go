package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
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

	// Retry says whether Unlock may be called again after it failed with err. Do
	// then calls it again in the background, for as long as RetryFor. Nil: never.
	//
	// A lock that knows its own can always be given back again: at worst there is
	// nothing to give back any more. One that removes whatever lock is there must
	// not be, unless it is known that nobody else can have it meanwhile.
	Retry    func(err error) bool
	RetryFor time.Duration // after that the lock has expired by itself

	undoing   atomic.Int32 // calls of undo that have not ended yet
	releasing atomic.Int32 // failed releases that are tried again
}

const (
	// maxUndoing bounds the calls of undo at once.
	maxUndoing = 64
	// maxReleasing bounds the releases that are tried again at once. There is one
	// for each key at most, as nobody else has the lock of that key meanwhile.
	maxReleasing = 1024
	// An Unlock is tried again after firstPause, and twice as long each time, up
	// to maxPause.
	firstPause, maxPause = 10 * time.Millisecond, 200 * time.Millisecond
)

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
// Redis hangs, the caller is to be told now. Where so many are under way that
// Redis is surely away, the lock is left to its ttl. The first ones go on: what
// came later did not reach Redis.
func (d *Distributed) undo(ctx context.Context, lock Lock) {
	if d.undoing.Add(1) > maxUndoing {
		d.undoing.Add(-1)
		return
	}
	go func() {
		defer d.undoing.Add(-1)
		d.again(ctx, lock, lock.Unlock(ctx)) // "not held", most of the time
	}()
}

// insist gives lock back in the background, after an Unlock that failed with err.
func (d *Distributed) insist(ctx context.Context, lock Lock, err error) {
	if d.releasing.Add(1) > maxReleasing {
		d.releasing.Add(-1)
		return
	}
	go func() {
		defer d.releasing.Add(-1)
		d.again(ctx, lock, err)
	}()
}

// again calls Unlock after it failed with err, until it does not fail any more or
// must not be called again. It ends when the client of Redis is closed.
func (d *Distributed) again(ctx context.Context, lock Lock, err error) {
	end := time.Now().Add(d.RetryFor)
	for pause := firstPause; d.retries(err) && time.Now().Before(end); pause = min(2*pause, maxPause) {
		time.Sleep(pause)
		err = lock.Unlock(ctx)
	}
}

// retries reports whether Unlock is to be called again after it returned err.
func (d *Distributed) retries(err error) bool {
	return err != nil && !d.tooLate(err) && !errors.Is(err, redis.ErrClosed) && d.Retry != nil && d.Retry(err)
}

// tooLate reports whether err says that the lease had run out.
func (d *Distributed) tooLate(err error) bool {
	return slices.ContainsFunc(d.NotHeld, func(lost error) bool { return errors.Is(err, lost) })
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
	if err != nil && t.guard.Undo && !errors.Is(err, context.Cause(t.wait)) {
		t.guard.undo(t.ctx, t.lock)
	}
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
// section, whose work is done, but it is put on record. So is a release that
// failed: it is tried again, and nobody waits for that.
func (t *Turn) release() {
	err := t.lock.Unlock(t.ctx)
	if l, ok := t.lock.(interface{ Renewals() int }); ok && t.held {
		t.stats.Renewals += l.Renewals()
	}
	t.held = false
	switch {
	case err == nil:
	case t.guard.tooLate(err):
		t.stats.Lost = true
	default:
		t.stats.Release = err
		if t.guard.retries(err) {
			t.guard.insist(t.ctx, t.lock, err)
		}
	}
}
