package thirdparty

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sync/singleflight"
)

// rueidisPrefix is KeyPrefix. The default, "rueidislock", is outside of the
// project's keys.
const rueidisPrefix = "oversell:rueidislock"

// RueidislockKey is the key in Redis of the lock that is called key.
func RueidislockKey(key string) string { return rueidisPrefix + ":0:" + key }

// Rueidislock makes the locks of rueidislock: one Locker a process, WithContext,
// and the function that it returns to unlock, as in
// https://github.com/redis/rueidis/blob/main/rueidislock/README.md. It is safe
// for concurrent use. Close must be called in the end.
//
// The Locker has a rueidis client of its own, with one connection to the Redis
// that the go-redis client goes to. It is made when the first lock is asked for,
// and again at the next if that failed. The hooks of the go-redis client see
// nothing of what it sends.
//
// Its defaults (https://github.com/redis/rueidis/tree/main/rueidislock#default-configuration),
// all kept but KeyValidity, which is the ttl, and KeyMajority, which the README
// wants to be 1 where there is one Redis:
//   - ExtendInterval: the lease is extended every half of the ttl;
//   - TryNextAfter: a try that takes more than 20 ms has failed, and is undone;
//   - client-side caching: Redis tells when the lock changes. A waiter asks
//     when it is told, and a holder hears of its loss at once. Where Redis cannot
//     (the embedded one, RESP2), waiters ask every 20 ms, and a holder hears of
//     its loss at the next extension;
//   - NoLoopTracking off: it is also told of its own extensions, and extends
//     again for each, as fast as Redis answers, from the first half of the ttl on
//     to the end of the hold;
//   - an error of Redis is swallowed, and the wait goes on until it is ended.
//
// The deadline of a lease is sent as a time of day: clocks of instances and Redis
// that differ by more than the ttl leave no lease at all.
//
// 5,000 waiters in a process stand at one gate, and each notice lets one of them
// ask: 3,500 to 5,000 a second are served, with 14 commands for each. But all ask
// once when they come, and where Redis does not answer all of them within 20 ms
// they fail, undo, and ask again until nobody gets in: of eight such runs on a
// busy machine, with this adapter and without, two served none and two stalled
// half way. Without client-side caching each asks every 20 ms as well, and that is
// the rule.
//
// A try that fails may take its gate away from those who stand there (lock.go
// counts who stands there twice when a goroutine is quicker than its maker). They
// are then told of nothing: a waiter is never woken, and a holder hears of its
// loss only at the next extension.
type Rueidislock struct {
	rdb redis.UniversalClient
	ttl time.Duration

	life context.Context // of all that is asked for and held
	end  context.CancelCauseFunc

	opening singleflight.Group

	mu     sync.Mutex
	locker rueidislock.Locker // nil until the first lock is asked for
}

// NewRueidislock returns the locks on the Redis that rdb goes to, with leases of
// ttl. It does not connect.
func NewRueidislock(rdb redis.UniversalClient, ttl time.Duration) *Rueidislock {
	life, end := context.WithCancelCause(context.Background())
	return &Rueidislock{rdb: rdb, ttl: ttl, life: life, end: end}
}

// New returns a handle on the lock that is called key. It does not take it.
func (r *Rueidislock) New(key string) *RueidislockMutex {
	return &RueidislockMutex{lib: r, key: key}
}

// Close ends the Locker: those who wait and those who come get
// rueidislock.ErrLockerClosed, and those who hold a lock lose it. It is for the
// time after the last hold: what is held may stay in Redis until the ttl is over.
func (r *Rueidislock) Close() error {
	// By itself the Locker does not find those who have lost their gate.
	r.end(rueidislock.ErrLockerClosed)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.locker != nil {
		r.locker.Close()
		r.locker = nil
	}
	return nil
}

// open returns the Locker. Those who come while it is being made wait for it
// together, and share the error if there is one.
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

// opened returns the Locker if there is one, and an error if there will be none.
func (r *Rueidislock) opened() (rueidislock.Locker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.locker, context.Cause(r.life)
}

// make makes the Locker, unless somebody has done so just now.
func (r *Rueidislock) make() (rueidislock.Locker, error) {
	if locker, err := r.opened(); locker != nil || err != nil {
		return locker, err
	}
	locker, err := newLocker(r.rdb, r.ttl)
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

// newLocker connects. A Redis that cannot tell of changes is asked for none, as
// the library's error for it wants.
func newLocker(rdb redis.UniversalClient, ttl time.Duration) (rueidislock.Locker, error) {
	client, err := rueidisOptions(rdb)
	if err != nil {
		return nil, err
	}
	o := rueidislock.LockerOption{ClientOption: client, KeyPrefix: rueidisPrefix, KeyValidity: ttl, KeyMajority: 1}
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

// rueidisHold is what a Locker gave out.
type rueidisHold struct {
	ctx    context.Context // ends with the hold
	unlock context.CancelFunc
	err    error // why there is none

	end context.CancelCauseFunc // ends ctx from outside
}

// errReleased is the cause of the context of a hold that was given back.
var errReleased = errors.New("released")

// acquired runs one of the Locker's ways of asking. ctx is not the caller's: of
// its deadline the Locker would make the end of the lease, and of its
// cancellation the end of the hold.
func acquired(ctx context.Context, end context.CancelCauseFunc, key string,
	ask func(context.Context, string) (context.Context, context.CancelFunc, error),
) *rueidisHold {
	held, unlock, err := ask(ctx, key)
	if err != nil {
		end(err)
	}
	return &rueidisHold{ctx: held, unlock: unlock, err: err, end: end}
}

// TryLock asks for the lock once. After an error it is not held: the library
// gives back what it may have taken, and waits for that as long as Redis is
// silent, though not for longer than the ttl.
func (m *RueidislockMutex) TryLock(ctx context.Context) (bool, error) {
	locker, err := m.lib.open(ctx)
	if err != nil {
		return false, err
	}
	own, end := context.WithCancelCause(m.lib.life)
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

// Lock waits as the Locker does. It returns the cause of wait when that has
// ended, or why there is no Locker.
func (m *RueidislockMutex) Lock(wait context.Context) error {
	locker, err := m.lib.open(wait)
	if err != nil {
		return err
	}
	own, end := context.WithCancelCause(m.lib.life)
	// Beside the wait, for a Locker that finds Redis silent does not notice
	// its end before the ttl is over.
	asked := make(chan *rueidisHold, 1)
	go func() { asked <- acquired(own, end, m.key, locker.WithContext) }()
	select {
	case <-wait.Done():
		end(errReleased) // and what is still had is given back
		return context.Cause(wait)
	case h := <-asked:
		if h.err != nil { // it has no other reason: errors of Redis it swallows
			return rueidislock.ErrLockerClosed
		}
		m.hold = h
		return nil
	}
}

// Unlock gives the lock back, even when ctx is cancelled already. It returns
// ErrNotHeld when the Locker has told of the loss before; what Redis says to the
// release the Locker tells nobody.
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
	timer := time.NewTimer(unlockTimeout)
	defer timer.Stop()
	select {
	case <-released:
	case <-timer.C:
		return errSilent
	}
	if lost {
		return ErrNotHeld
	}
	return nil
}

var errSilent = errors.New("rueidislock: no answer to the release in time")

// Context returns a copy of parent for the work under the lock. It ends when the
// Locker tells that the lock is lost, with ErrLost as its cause, or when it is
// given back.
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
