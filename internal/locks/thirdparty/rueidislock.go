package thirdparty

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sync/singleflight"
)

// rueidisPrefix is the KeyPrefix. The default, "rueidislock", is not a prefix of this project's
// keys.
const rueidisPrefix = "oversell:rueidislock"

// RueidislockKey returns the key in Redis of the lock named key.
func RueidislockKey(key string) string { return rueidisPrefix + ":0:" + key }

// Rueidislock makes the locks of rueidislock: one Locker per process, WithContext, and the function
// that it returns to unlock, as in
// https://github.com/redis/rueidis/blob/main/rueidislock/README.md. It is safe for concurrent use.
// Close must be called at the end.
//
// The Locker has a rueidis client of its own, with one connection to the Redis of the go-redis
// client. It is created for the first lock, or, if that fails, for the next one. The hooks of the
// go-redis client do not see its commands.
//
// Its defaults (https://github.com/redis/rueidis/tree/main/rueidislock#default-configuration),
// which the shop keeps, except for KeyValidity, which is its ttl, and KeyMajority, which according
// to the README must be 1 for a single Redis:
//   - ExtendInterval: the lease is extended every half of the ttl;
//   - TryNextAfter: a try that takes more than 20 ms has failed, and is undone;
//   - client-side caching: Redis sends a notice when the lock changes. A waiter asks when it gets a
//     notice, and a holder learns of its loss immediately. If Redis cannot send notices (the
//     embedded one, RESP2), waiters ask every 20 ms, and a holder learns of its loss at the next
//     extension;
//   - NoLoopTracking off: it also gets notices of its own extensions, and extends again for each,
//     as fast as Redis answers, from half of the ttl until the hold ends;
//   - an error of Redis is swallowed, and the wait goes on until its context ends.
//
// The end of a lease is sent as a time of day: if the clocks of the process and Redis differ by
// more than the ttl, the lease is over immediately.
//
// 5,000 waiters in a process share one gate, and each notice lets one of them ask: 3,500
// to 5,000 a second are served, with 14 commands for each. But all ask once when they
// start, and if Redis does not answer all of them within 20 ms they fail, undo, and ask
// again until nobody gets the lock: of eight such runs on a busy machine, with this
// adapter and without, two served none and two stalled half way. Without client-side
// caching each also asks every 20 ms, and then this is the usual result.
//
// A failed try may remove the gate while others still wait at it (lock.go counts a waiter twice if
// a goroutine is quicker than its creator). Those others then get no notifications: a waiter is
// never woken, and a holder learns of its loss only at the next extension.
type Rueidislock struct {
	Bare bool // see the package comment; set it before New

	rdb     redis.UniversalClient
	options rueidislock.LockerOption

	life context.Context // for all requests and holds
	end  context.CancelCauseFunc

	opening singleflight.Group

	mu     sync.Mutex
	locker rueidislock.Locker // nil until the first lock is requested
}

// NewRueidislock returns the locks on rdb's Redis, with the given options except
// KeyMajority and those by which rdb connects. It does not connect.
func NewRueidislock(rdb redis.UniversalClient, o rueidislock.LockerOption) *Rueidislock {
	life, end := context.WithCancelCause(context.Background())
	o.KeyPrefix = cmp.Or(o.KeyPrefix, rueidisPrefix)
	return &Rueidislock{rdb: rdb, options: o, life: life, end: end}
}

// New returns a handle on the lock named key. It does not acquire it.
func (r *Rueidislock) New(key string) *RueidislockMutex {
	return &RueidislockMutex{lib: r, key: key}
}

// Close ends the Locker: present and later waiters get rueidislock.ErrLockerClosed, and
// holders lose their locks. Call it after the last hold: a held lock may stay in Redis
// until the ttl is over.
func (r *Rueidislock) Close() error {
	// The Locker itself does not reach waiters whose gate was removed.
	r.end(rueidislock.ErrLockerClosed)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.locker != nil {
		r.locker.Close()
		r.locker = nil
	}
	return nil
}

// Open connects now instead of at the first lock.
func (r *Rueidislock) Open(ctx context.Context) error {
	_, err := r.open(ctx)
	return err
}

// open returns the Locker. Concurrent callers wait together until it is created, and
// share the error if there is one.
func (r *Rueidislock) open(ctx context.Context) (rueidislock.Locker, error) {
	if locker, err := r.opened(); locker != nil || err != nil {
		return locker, err
	}
	made := r.opening.DoChan("", func() (any, error) { return r.make() })
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case result := <-made:
		if result.Err != nil {
			return nil, result.Err
		}
		return result.Val.(rueidislock.Locker), nil
	}
}

// opened returns the Locker if it exists, and an error if the Rueidislock is closed.
func (r *Rueidislock) opened() (rueidislock.Locker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.locker, context.Cause(r.life)
}

// make creates the Locker, unless another call has just done so.
func (r *Rueidislock) make() (rueidislock.Locker, error) {
	if locker, err := r.opened(); locker != nil || err != nil {
		return locker, err
	}
	locker, err := newLocker(r.rdb, r.options)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.Err() != nil {
		locker.Close()
		return nil, context.Cause(r.life)
	}
	r.locker = locker
	return locker, nil
}

// newLocker connects. If Redis cannot send notices of changes, it disables client-side caching, as
// the library's error says.
func newLocker(rdb redis.UniversalClient, o rueidislock.LockerOption) (rueidislock.Locker, error) {
	o.KeyMajority = 1
	if err := connectTo(rdb, &o.ClientOption); err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(o)
	if errors.Is(err, rueidis.ErrNoCache) {
		o.ClientOption.DisableCache = true
		locker, err = rueidislock.NewLocker(o)
	}
	return locker, err
}

// RueidislockMutex is one holder's handle on a lock. It must not be used by
// several goroutines at once.
type RueidislockMutex struct {
	lib  *Rueidislock
	key  string
	hold *rueidisHold // nil without one
}

// rueidisHold is the result of a call of the Locker.
type rueidisHold struct {
	ctx    context.Context // ends with the hold
	unlock context.CancelFunc
	err    error // why there is no hold

	end context.CancelCauseFunc // ends ctx from outside
}

// errReleased is the cause of a released hold's context.
var errReleased = errors.New("released")

// holding returns the context for a request and its hold. It is not the caller's, unless r is Bare:
// the Locker would end the lease at the caller's deadline, and the hold when the caller's context
// is cancelled.
func (r *Rueidislock) holding(caller context.Context) context.Context {
	if r.Bare {
		return caller
	}
	return r.life
}

// acquired calls one of the Locker's methods. If the context ends during the call, the Locker may
// still acquire the lock, which is then released.
func acquired(ctx context.Context, end context.CancelCauseFunc, key string,
	ask func(context.Context, string) (context.Context, context.CancelFunc, error),
) *rueidisHold {
	held, unlock, err := ask(ctx, key)
	if err == nil && ctx.Err() != nil {
		unlock()
		err = context.Cause(ctx)
	}
	if err != nil {
		end(err)
	}
	return &rueidisHold{ctx: held, unlock: unlock, err: err, end: end}
}

// TryLock asks for the lock once. After an error it is not held: the library undoes the
// try, and waits for that while Redis does not answer, but not for longer than the ttl.
func (m *RueidislockMutex) TryLock(ctx context.Context) (bool, error) {
	locker, err := m.lib.open(ctx)
	if err != nil {
		return false, err
	}
	own, end := context.WithCancelCause(m.lib.holding(ctx))
	h := acquired(own, end, m.key, locker.TryWithContext)
	if errors.Is(h.err, rueidislock.ErrNotLocked) {
		return false, nil
	}
	if h.err != nil {
		return false, h.err
	}
	m.hold = h
	return true, nil
}

// Lock waits like the Locker. It returns the cause of wait if wait has ended, or the error if there
// is no Locker.
func (m *RueidislockMutex) Lock(wait context.Context) error {
	locker, err := m.lib.open(wait)
	if err != nil {
		return err
	}
	own, end := context.WithCancelCause(m.lib.holding(wait))
	// In a goroutine, because a Locker that gets no answer from Redis notices the end
	// of the wait only when the ttl is over.
	asked := make(chan *rueidisHold, 1)
	go func() { asked <- acquired(own, end, m.key, locker.WithContext) }()
	select {
	case <-wait.Done():
		end(errReleased) // a lock that is acquired nevertheless is released
		return context.Cause(wait)
	case h := <-asked:
		switch {
		case h.err == nil:
		case wait.Err() != nil:
			return context.Cause(wait)
		default: // the only other reason, because it swallows errors of Redis
			return rueidislock.ErrLockerClosed
		}
		m.hold = h
		return nil
	}
}

// Unlock releases the lock, even if ctx is already cancelled. It returns ErrNotHeld if the Locker
// had reported the loss before; the Locker does not return Redis's answer to the release.
func (m *RueidislockMutex) Unlock(context.Context) error {
	h := m.hold
	if h == nil {
		return ErrNotHeld
	}
	m.hold = nil
	lost := h.ctx.Err() != nil
	h.end(errReleased)
	released := make(chan struct{})
	go func() {
		h.unlock()
		close(released)
	}()
	select {
	case <-released:
	case <-time.After(unlockTimeout):
		return errSilent
	}
	if lost {
		return ErrNotHeld
	}
	return nil
}

var errSilent = errors.New("rueidislock: no answer to the release in time")

// Context returns a copy of parent for the work under the lock. It ends when the
// Locker reports that the lock is lost, with ErrLost as its cause, or when it is
// released.
func (m *RueidislockMutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	h := m.hold
	if h == nil {
		cancel(ErrNotHeld)
		return ctx
	}
	over := func() {
		if context.Cause(h.ctx) == errReleased {
			cancel(context.Canceled)
		} else {
			cancel(ErrLost)
		}
	}
	if h.ctx.Err() != nil {
		over()
	} else {
		context.AfterFunc(h.ctx, over)
	}
	return ctx
}
