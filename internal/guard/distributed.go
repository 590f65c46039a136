package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Distributed guards sections with a Lock that all processes share. It is safe for concurrent use.
type Distributed struct {
	New func(key string) Lock // returns a handle on the lock for one holder

	// Policy is the way of waiting for the lock. It must be nil if the lock is a Waiter, which
	// waits with its own method.
	Policy Policy

	// OneWaits lets only one caller of this process at a time call the Lock method of a Waiter for
	// each key; the other callers wait in memory. Use it for a lock whose waiters need a connection
	// each. The next caller calls Lock as soon as the previous one has the lock.
	OneWaits bool
	waiting  KeyedMutex

	// WithOwner puts the owner into the context for the lock. It is nil for a lock without owners.
	WithOwner func(ctx context.Context, owner string) context.Context

	// NotHeld is the error that Unlock returns if it comes too late: the lease is over, and another
	// holder may have the lock.
	NotHeld error

	// Undo means that Unlock is safe after a failed attempt, because it releases only the caller's own lock. Do
	// then calls Unlock, in case the attempt acquired the lock and only its reply was lost.
	//
	// With a reentrant lock, only an attempt at the outermost hold can be undone. An attempt in Do
	// is always at the outermost hold, because each call to Do has a new owner and ends after a
	// failed attempt.
	Undo bool

	// Retry reports whether Unlock may be called again after it failed with err. If so, Do repeats
	// Unlock in the background for RetryFor. If Retry is nil, Do never repeats Unlock.
	//
	// If Unlock releases only the caller's own lock, it can always be repeated. If Unlock releases
	// the lock of any holder, it may be repeated only while no other holder can have the lock.
	Retry    func(err error) bool
	RetryFor time.Duration // after this time the lock has expired

	undoing   atomic.Int32 // running calls to undo
	releasing atomic.Int32 // failed releases that are being repeated
}

const (
	// maxUndoing limits the concurrent calls to undo.
	maxUndoing = 64
	// maxReleasing limits the releases that are being repeated at the same time. Usually there is at
	// most one for each key.
	maxReleasing = 1024
	// The pause before Unlock is repeated begins at firstPause, and doubles each time up to maxPause.
	firstPause, maxPause = 10 * time.Millisecond, 200 * time.Millisecond
)

// Do acquires the lock, runs section and releases the lock.
func (d *Distributed) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	if d.WithOwner != nil {
		ctx = d.WithOwner(ctx, e.Owner)
	}
	h := &handle{guard: d, key: e.Key, lock: d.New(e.Key), begun: time.Now()}
	if p, ok := d.Policy.(Recursive); ok { // a mistake on purpose
		err := p.run(ctx, h, section)
		return h.stats, err
	}
	var released func()
	var err error
	if d.Policy == nil {
		err = h.wait(ctx)
	} else {
		released, err = d.Policy.Acquire(ctx, e.Key, func() (bool, error) { return h.try(ctx) })
	}
	if err != nil {
		h.stats.Waited = time.Since(h.begun)
		return h.stats, err
	}
	if released != nil {
		defer released()
	}
	err = h.run(ctx, section)
	return h.stats, err
}

// handle is one caller's handle on the lock. It is not safe for concurrent use.
type handle struct {
	guard   *Distributed
	key     string
	lock    Lock
	begun   time.Time // when Do was called
	entered bool      // the section has begun at least once
	held    bool      // the last attempt succeeded, and the lock has not been released since then
	stats   Stats
}

// try asks for the lock once.
func (h *handle) try(ctx context.Context) (ok bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	h.stats.Attempts++
	asked := time.Now()
	// Without WithoutCancel, an interrupted command could leave behind a lock that no process knows of.
	h.held, err = h.lock.TryLock(context.WithoutCancel(ctx))
	if h.held {
		h.stats.Taking = time.Since(asked)
	}
	if err != nil && h.guard.Undo {
		h.guard.undo(ctx, h.lock)
	}
	return h.held, err
}

// wait calls the lock's own Lock method, which waits until ctx ends. It returns ErrNoWait if the
// lock is not a Waiter.
func (h *handle) wait(ctx context.Context) error {
	l, ok := h.lock.(Waiter)
	if !ok {
		return fmt.Errorf("%w: %T", ErrNoWait, h.lock)
	}
	if h.guard.OneWaits {
		first, err := h.guard.waiting.Lock(ctx, h.key)
		if err != nil {
			return err
		}
		defer first.Unlock()
	}
	h.stats.Attempts++
	asked := time.Now()
	err := l.Lock(ctx)
	if h.held = err == nil; h.held {
		h.stats.Taking = time.Since(asked)
	} else if h.guard.Undo && !errors.Is(err, context.Cause(ctx)) {
		h.guard.undo(ctx, h.lock)
	}
	return err
}

// run runs the section and releases the lock. The section's context ends when the lock is lost, and
// contains the fencing token.
func (h *handle) run(ctx context.Context, section func(context.Context) error) error {
	entered := time.Now()
	if !h.entered {
		h.entered, h.stats.Waited = true, entered.Sub(h.begun)
	}
	defer func() { h.stats.Held += time.Since(entered) }()
	live := context.WithoutCancel(ctx) // ctx ends only the wait (see Guard)
	defer h.release(live)
	inside := live
	if l, ok := h.lock.(interface {
		Context(context.Context) context.Context
	}); ok && h.held {
		inside = l.Context(inside)
	}
	if l, ok := h.lock.(tokens); ok && h.held {
		inside = context.WithValue(inside, tokenKey{}, l)
	}
	return section(inside)
}

// tokenKey is the type of the context key, so that no other package can set it.
type tokenKey struct{}

// tokens is a lock that gives its holder a fencing token.
type tokens interface{ Token() int64 }

// Token returns the fencing token of the hold under which a section runs, or false if the lock has
// no tokens. The section must send the token with every read and write of the guarded resource.
func Token(ctx context.Context) (int64, bool) {
	l, ok := ctx.Value(tokenKey{}).(tokens)
	if !ok {
		return 0, false
	}
	return l.Token(), true
}

// TokenAfter returns a fencing token of the same hold that is larger than seen. A section calls it
// if the resource has refused the section's token because it had already seen the larger token
// seen. False means that the section is too late: its lock gives it no other token.
func TokenAfter(ctx context.Context, seen int64) (int64, bool) {
	l, ok := ctx.Value(tokenKey{}).(interface {
		TokenAfter(ctx context.Context, seen int64) (int64, error)
	})
	if !ok {
		return 0, false
	}
	token, err := l.TokenAfter(ctx, seen)
	return token, err == nil
}

// release releases the lock. If the lease was over, release only records that in the stats, because
// the section's work is done. It also records a failed release, and repeats the release in the
// background.
func (h *handle) release(ctx context.Context) {
	err := h.lock.Unlock(ctx)
	if l, ok := h.lock.(interface{ Renewals() int }); ok && h.held {
		h.stats.Renewals += l.Renewals()
	}
	h.held = false
	switch {
	case err == nil:
	case errors.Is(err, h.guard.NotHeld):
		h.stats.Lost = true
	default:
		h.stats.Release = err
		if h.guard.retries(err) {
			inBackground(&h.guard.releasing, maxReleasing, func() { h.guard.repeatUnlock(ctx, h.lock, err) })
		}
	}
}

// undo releases lock after a failed attempt. It does so in the background, so that the caller gets
// its error immediately even if Redis hangs.
func (d *Distributed) undo(ctx context.Context, lock Lock) {
	ctx = context.WithoutCancel(ctx) // the goroutine outlives the call
	inBackground(&d.undoing, maxUndoing, func() {
		d.repeatUnlock(ctx, lock, lock.Unlock(ctx)) // the error is ErrNotHeld most of the time
	})
}

// inBackground runs f in a goroutine, unless so many such goroutines are running that Redis must be
// down. In that case the lock is left to expire.
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

// repeatUnlock calls Unlock again after it failed with err, until Unlock succeeds or must not be
// repeated. It also returns when the Redis client is closed.
func (d *Distributed) repeatUnlock(ctx context.Context, lock Lock, err error) {
	end := time.Now().Add(d.RetryFor)
	for pause := firstPause; d.retries(err) && time.Now().Before(end); pause = min(2*pause, maxPause) {
		time.Sleep(pause)
		err = lock.Unlock(ctx)
	}
}

// retries reports whether Unlock should be called again after it returned err.
func (d *Distributed) retries(err error) bool {
	ended := errors.Is(err, d.NotHeld) || errors.Is(err, redis.ErrClosed)
	return err != nil && !ended && d.Retry != nil && d.Retry(err)
}

// Line queues the callers of this process for each key, in order of arrival. Only the first caller
// asks for the lock: after each delay, and immediately when this process has released the lock. So
// only one caller per process polls Redis, regardless of the number of waiters. If 5,000 callers
// each polled Redis, most would never be served.
//
// A Line is not a lock: the next caller already asks while the previous one is still in its
// section, and only the lock excludes it.
type Line struct {
	Delay time.Duration // mean time between two attempts; a random jitter changes it by up to half

	asking KeyedMutex // held by the first caller of each key

	mu   sync.Mutex
	held map[string]*lineHolds // by key: the holds of this process
}

// lineHolds counts the holds of one key. There are several if the lock failed to exclude other
// holders.
type lineHolds struct {
	n     int
	freed chan struct{} // closed when one of the holds is released
}

// Acquire implements Policy.
func (p *Line) Acquire(ctx context.Context, key string, try func() (bool, error)) (released func(), err error) {
	first, err := p.asking.Lock(ctx, key)
	if err != nil {
		return nil, err
	}
	defer first.Unlock()
	freed := p.freed(key)
	if freed != nil { // this process holds the lock, so asking now would waste a command
		if err := p.pause(ctx, freed); err != nil {
			return nil, err
		}
	}
	for {
		// Get the channel first, so that a release during the attempt is not missed.
		freed = p.freed(key)
		ok, err := try()
		if err != nil {
			return nil, err
		}
		if ok {
			return p.took(key), nil
		}
		if err := p.pause(ctx, freed); err != nil {
			return nil, err
		}
	}
}

// pause waits for the delay, or until this process releases the lock.
func (p *Line) pause(ctx context.Context, freed <-chan struct{}) error {
	select {
	case <-freed:
		return nil
	case <-time.After(p.Delay/2 + rand.N(p.Delay)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// freed returns a channel that is closed when this process releases the lock of the key, or nil if
// this process does not hold the lock.
func (p *Line) freed(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h := p.held[key]; h != nil {
		return h.freed
	}
	return nil
}

// took records that this process holds the lock of the key. It returns the function that records the
// release, and makes the first caller that waits for the key ask immediately.
func (p *Line) took(key string) (released func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held == nil {
		p.held = make(map[string]*lineHolds)
	}
	h := p.held[key]
	if h == nil {
		h = &lineHolds{freed: make(chan struct{})}
		p.held[key] = h
	}
	h.n++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(h.freed)
		if h.n--; h.n == 0 {
			delete(p.held, key)
		} else {
			h.freed = make(chan struct{})
		}
	}
}

func (p *Line) String() string { return "line:" + p.Delay.String() }
