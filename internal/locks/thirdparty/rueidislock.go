package thirdparty

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"golang.org/x/sync/singleflight"
)

// rueidisPrefix is the Locker's KeyPrefix. It replaces the default, "rueidislock", because all keys
// of this project begin with "oversell:".
const rueidisPrefix = "oversell:rueidislock"

// RueidislockKey returns the Redis key of the lock named key.
func RueidislockKey(key string) string { return rueidisPrefix + ":0:" + key }

// Rueidislock creates locks of rueidislock. It uses one Locker per process, WithContext, and the
// unlock function that WithContext returns, as in
// https://github.com/redis/rueidis/blob/main/rueidislock/README.md. It is safe for concurrent use.
// Close must be called at the end.
//
// The Locker has its own rueidis client, with one connection to the Redis of the go-redis client.
// It is created when the first lock is requested; if that fails, it is created at the next request.
// The hooks of the go-redis client do not see the commands of the rueidis client.
//
// Its defaults (https://github.com/redis/rueidis/tree/main/rueidislock#default-configuration) are
// as follows. The shop keeps them, except for KeyValidity, which is the shop's ttl, and
// KeyMajority, which according to the README must be 1 for a single Redis:
//   - ExtendInterval: the lease is extended after each half of the ttl;
//   - TryNextAfter: a try that takes more than 20 ms counts as failed and is undone;
//   - client-side caching: Redis sends a notice when the lock changes. A waiter asks when it gets a
//     notice, and a holder learns of its loss immediately. If Redis cannot send notices (the
//     embedded Redis, RESP2), waiters ask every 20 ms, and a holder learns of its loss at the next
//     extension;
//   - NoLoopTracking off: the Locker also gets notices of its own extensions, and extends again
//     for each. So, from half of the ttl until the hold ends, it extends as fast as Redis answers;
//   - an error of Redis is swallowed, and the wait continues until its context ends.
//
// The end of a lease is sent to Redis as an absolute time. If the clock of Redis is ahead of the
// process's clock by more than the ttl, the lease is over immediately.
//
// If 5,000 callers in a process wait, they share one gate, and each notice lets one of them ask.
// Between 3,500 and 5,000 waiters a second are served, with 14 commands for each. But all waiters
// ask once when they start. If Redis does not answer all of them within 20 ms, they fail, undo
// their tries, and ask again, until nobody gets the lock. Of eight such runs on a busy machine,
// with and without this adapter, two served nobody and two stalled halfway. Without client-side
// caching each waiter also asks every 20 ms, and a stall is the usual result.
//
// A failed try may remove the gate while other callers still use it (the library's lock.go counts a
// waiter twice if a goroutine is faster than its creator). Those callers then get no notices: a
// waiter is never woken, and a holder learns of its loss only at the next extension.
type Rueidislock struct {
	Bare bool // see the package comment; must be set before New

	rdb     redis.UniversalClient
	options rueidislock.LockerOption

	life context.Context // limits all requests and holds
	end  context.CancelCauseFunc

	opening singleflight.Group

	mu     sync.Mutex
	locker rueidislock.Locker // nil until the first lock is requested
}

// NewRueidislock returns a Rueidislock on the Redis of rdb. It uses the given options, except for
// KeyMajority and the options that connectTo takes from rdb. It does not connect.
func NewRueidislock(rdb redis.UniversalClient, o rueidislock.LockerOption) *Rueidislock {
	life, end := context.WithCancelCause(context.Background())
	o.KeyPrefix = cmp.Or(o.KeyPrefix, rueidisPrefix)
	return &Rueidislock{rdb: rdb, options: o, life: life, end: end}
}

// New returns a handle on the lock named key. It does not acquire the lock.
func (r *Rueidislock) New(key string) *RueidislockMutex {
	return &RueidislockMutex{lib: r, key: key}
}

// Close ends the Locker. Current and later waiters get rueidislock.ErrLockerClosed, and holders lose their
// locks. Call it after the last hold, because a held lock may stay in Redis until the ttl is over.
func (r *Rueidislock) Close() error {
	// The Locker's own Close does not end waits whose gate was removed.
	r.end(rueidislock.ErrLockerClosed)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.locker != nil {
		r.locker.Close()
		r.locker = nil
	}
	return nil
}

// Open connects now rather than at the first lock.
func (r *Rueidislock) Open(ctx context.Context) error {
	_, err := r.open(ctx)
	return err
}

// open returns the Locker, and creates it if necessary. Concurrent callers wait for the
// same creation, and share its error.
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

// opened returns the Locker, or nil if there is none yet. If the Rueidislock is closed, it returns an error.
func (r *Rueidislock) opened() (rueidislock.Locker, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.locker, context.Cause(r.life)
}

// make creates the Locker and returns it. If another call has just created it, make returns that one.
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

// newLocker creates a Locker, which connects to Redis. If Redis cannot send notices of changes,
// newLocker disables client-side caching, as the library's error advises.
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
	hold *rueidisHold // nil if there is none
}

// rueidisHold is the result of one request to the Locker.
type rueidisHold struct {
	ctx    context.Context // ends with the hold
	unlock context.CancelFunc
	err    error // the reason why there is no hold

	end context.CancelCauseFunc // cancels ctx
}

// errReleased is the cancellation cause of the context of a released hold.
var errReleased = errors.New("released")

// holding returns the context for a request and its hold. If r is Bare, it is the caller's context.
// Otherwise it is not, because the Locker would end the lease at the caller's deadline, and the
// hold when the caller's context is cancelled.
func (r *Rueidislock) holding(caller context.Context) context.Context {
	if r.Bare {
		return caller
	}
	return r.life
}

// acquired calls ask, one of the Locker's methods. If the context ends during the call, the Locker
// may still acquire the lock; acquired then releases it.
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

// TryLock asks for the lock once. After an error the lock is not held, because the library undoes
// the try. If Redis does not answer, TryLock waits for at most the ttl.
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

// Lock waits in the Locker's way. If the context wait ends, Lock returns its cause. If the Locker
// could not be created, Lock returns that error.
func (m *RueidislockMutex) Lock(wait context.Context) error {
	locker, err := m.lib.open(wait)
	if err != nil {
		return err
	}
	own, end := context.WithCancelCause(m.lib.holding(wait))
	// The call runs in a goroutine, because a Locker that gets no answer from Redis notices the
	// end of the wait only when the ttl is over.
	asked := make(chan *rueidisHold, 1)
	go func() { asked <- acquired(own, end, m.key, locker.WithContext) }()
	select {
	case <-wait.Done():
		end(errReleased) // if the lock is acquired nevertheless, it is released
		return context.Cause(wait)
	case h := <-asked:
		switch {
		case h.err == nil:
		case wait.Err() != nil:
			return context.Cause(wait)
		default: // no other reason is left, because the Locker swallows errors of Redis
			return rueidislock.ErrLockerClosed
		}
		m.hold = h
		return nil
	}
}

// Unlock releases the lock, even if ctx is already cancelled. It returns ErrNotHeld if the Locker
// has already reported the loss. The Locker does not return Redis's answer to the release.
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

// Context returns a copy of parent for the work under the lock. The copy is cancelled when the
// lock is released, or when the Locker reports that it is lost, with ErrLost as the cause.
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

// errClient means that the go-redis client is of a type whose servers cannot be determined.
var errClient = errors.New("rueidislock: neither one server, nor a cluster, nor what sentinels name")

// connectTo sets options in o so that rueidis connects to the servers of the go-redis client, as
// the same user. It does not change other options, such as timeouts.
func connectTo(rdb redis.UniversalClient, o *rueidis.ClientOption) error {
	switch c := rdb.(type) {
	case *redis.Client:
		from := c.Options()
		o.InitAddress, o.ForceSingleClient, o.AlwaysRESP2 = []string{from.Addr}, true, from.Protocol == 2
		o.Username, o.Password, o.SelectDB, o.ClientName = from.Username, from.Password, from.DB, from.ClientName
		// The dialer of the go-redis client uses the client's TLS settings. If the client uses sentinels,
		// it dials the current master.
		o.DialCtxFn = func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return from.Dialer(ctx, from.Network, addr)
		}
		return nil
	case *redis.ClusterClient:
		from := c.Options()
		o.InitAddress, o.TLSConfig, o.AlwaysRESP2 = from.Addrs, from.TLSConfig, from.Protocol == 2
		o.Username, o.Password, o.ClientName = from.Username, from.Password, from.ClientName
		return nil
	}
	return fmt.Errorf("%w: %T", errClient, rdb)
}
