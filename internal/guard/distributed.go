package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/guard/keymutex"
)

// Distributed guards sections by a Lock that all processes share. It is safe for concurrent
// use.
type Distributed struct {
	New func(key string) Lock // a lock for one holder

	// Policy is how to wait for the lock. It is nil for a Waiter, which has its own way
	// of waiting.
	Policy Policy

	// OneWaits lets only one caller of this process at a time call Lock of a Waiter for
	// each key; the others wait in memory. It is for a lock whose waiters need a
	// connection each. The next caller calls Lock as soon as the last one has the lock.
	OneWaits bool
	waiting  keymutex.Mutex

	// WithOwner puts the owner into the context for the lock; nil for a lock without
	// owners.
	WithOwner func(ctx context.Context, owner string) context.Context

	// NotHeld are the errors of Unlock that mean that it came too late: the lease had
	// run out, and another holder may have the lock.
	NotHeld []error

	// Undo means that Unlock is safe after a failed attempt, because it removes only the
	// caller's own lock. Do then calls it, in case the attempt took the lock and only the
	// reply was lost.
	//
	// With a reentrant lock only the outermost hold can be undone. Here it always is
	// the outermost, because each Do has a new owner, and a failed attempt ends the Do.
	Undo bool

	// Retry reports whether Unlock may be called again after it failed with err. Do
	// then repeats it in the background for RetryFor. Nil: never.
	//
	// If Unlock removes only the caller's own lock it can always be repeated. If it
	// removes any lock, it may be repeated only if nobody else can have the lock by then.
	Retry    func(err error) bool
	RetryFor time.Duration // after that the lock has expired

	undoing   atomic.Int32 // running calls of undo
	releasing atomic.Int32 // failed releases that are being repeated
}

const (
	// maxUndoing bounds the concurrent calls of undo.
	maxUndoing = 64
	// maxReleasing bounds the releases that are repeated at the same time. Usually
	// there is one for each key.
	maxReleasing = 1024
	// The first pause before Unlock is repeated; it doubles each time, up to maxPause.
	firstPause, maxPause = 10 * time.Millisecond, 200 * time.Millisecond
)

// Do acquires the lock, runs section and releases the lock.
func (d *Distributed) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	ctx, h := d.handle(ctx, e)
	start := time.Now()
	err := d.acquire(ctx, h)
	h.stats.Waited = time.Since(start)
	if err != nil {
		return h.stats, err
	}
	if p, ok := d.Policy.(interface{ Released(key string) }); ok {
		defer p.Released(e.Key)
	}
	err = h.run(ctx, section)
	return h.stats, err
}

// acquire waits for the lock until ctx ends. After an error the handle cannot be used
// again.
func (d *Distributed) acquire(ctx context.Context, h *handle) error {
	if d.Policy != nil {
		return d.Policy.Acquire(ctx, h.key, func() (bool, error) { return h.try(ctx) })
	}
	if d.OneWaits {
		first, err := d.waiting.Lock(ctx, h.key)
		if err != nil {
			return err
		}
		defer first.Unlock()
	}
	return h.wait(ctx)
}

// undo releases lock after an attempt that failed. It does so in the background, so that a
// caller gets its error at once even if Redis hangs.
func (d *Distributed) undo(ctx context.Context, lock Lock) {
	ctx = context.WithoutCancel(ctx) // the goroutine outlives the caller
	inBackground(&d.undoing, maxUndoing, func() {
		d.repeatUnlock(ctx, lock, lock.Unlock(ctx)) // "not held", most of the time
	})
}

// inBackground runs f, unless so many others are running that Redis is surely down. Then
// the lock is left to expire.
func inBackground(running *atomic.Int32, most int32, f func()) {
	if running.Add(1) > most {
		running.Add(-1)
		return
	}
	go func() {
		defer running.Add(-1)
		f()
	}()
}

// repeatUnlock calls Unlock after it failed with err, until it succeeds or must not be
// repeated. It ends when the Redis client is closed.
func (d *Distributed) repeatUnlock(ctx context.Context, lock Lock, err error) {
	end := time.Now().Add(d.RetryFor)
	for pause := firstPause; d.retries(err) && time.Now().Before(end); pause = min(2*pause, maxPause) {
		time.Sleep(pause)
		err = lock.Unlock(ctx)
	}
}

// retries reports whether to call Unlock again after it returned err.
func (d *Distributed) retries(err error) bool {
	return err != nil && !d.tooLate(err) && !errors.Is(err, redis.ErrClosed) && d.Retry != nil && d.Retry(err)
}

// tooLate reports whether err means that the lease had run out.
func (d *Distributed) tooLate(err error) bool {
	return slices.ContainsFunc(d.NotHeld, func(lost error) bool { return errors.Is(err, lost) })
}

// handle is one caller's handle on the lock. It is for one goroutine.
type handle struct {
	guard *Distributed
	key   string
	lock  Lock
	held  bool // the last attempt succeeded, and the lock was not released since
	stats Stats
}

// handle returns a handle for e, and ctx with the owner in it.
func (d *Distributed) handle(ctx context.Context, e Entry) (context.Context, *handle) {
	if d.WithOwner != nil {
		ctx = d.WithOwner(ctx, e.Owner)
	}
	return ctx, &handle{guard: d, key: e.Key, lock: d.New(e.Key)}
}

// try asks for the lock once.
func (h *handle) try(ctx context.Context) (ok bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	h.stats.Attempts++
	begun := time.Now()
	// WithoutCancel: a command that is cut off could leave a lock that nobody knows of.
	h.held, err = h.lock.TryLock(context.WithoutCancel(ctx))
	h.took(begun)
	if err != nil && h.guard.Undo {
		h.guard.undo(ctx, h.lock)
	}
	return h.held, err
}

// wait waits for the lock by calling its Lock, until ctx ends. It returns ErrNoWait if the
// lock is not a Waiter.
func (h *handle) wait(ctx context.Context) error {
	l, ok := h.lock.(Waiter)
	if !ok {
		return fmt.Errorf("%w: %T", ErrNoWait, h.lock)
	}
	h.stats.Attempts++
	begun := time.Now()
	err := l.Lock(ctx)
	if err != nil && h.guard.Undo && !errors.Is(err, context.Cause(ctx)) {
		h.guard.undo(ctx, h.lock)
	}
	h.held = err == nil
	h.took(begun)
	return err
}

// took notes how long the attempt took that began then, if it took the lock.
func (h *handle) took(begun time.Time) {
	if h.held {
		h.stats.Taking = time.Since(begun)
	}
}

// run runs the section and releases the lock. The section's context ends when the lock is
// lost, and carries the fencing token.
func (h *handle) run(ctx context.Context, section func(context.Context) error) error {
	entered := time.Now()
	defer func() { h.stats.Held += time.Since(entered) }()
	live := context.WithoutCancel(ctx) // the end of ctx ends the waiting only, see Guard
	defer h.release(live)
	inside := live
	if l, ok := h.lock.(interface {
		Context(context.Context) context.Context
	}); ok && h.held {
		inside = l.Context(inside)
	}
	if l, ok := h.lock.(interface{ Token() int64 }); ok && h.held {
		inside = withToken(inside, l.Token())
	}
	return section(inside)
}

// release releases the lock. If the lease had run out, that is recorded in the stats and
// not returned as an error, because the section's work is done. A failed release is
// recorded too, and repeated in the background.
func (h *handle) release(ctx context.Context) {
	err := h.lock.Unlock(ctx)
	if l, ok := h.lock.(interface{ Renewals() int }); ok && h.held {
		h.stats.Renewals += l.Renewals()
	}
	h.held = false
	switch {
	case err == nil:
	case h.guard.tooLate(err):
		h.stats.Lost = true
	default:
		h.stats.Release = err
		if h.guard.retries(err) {
			inBackground(&h.guard.releasing, maxReleasing, func() { h.guard.repeatUnlock(ctx, h.lock, err) })
		}
	}
}
