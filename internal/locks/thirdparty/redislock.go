package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockBackoff is the pause of LinearBackoff between two attempts.
const redislockBackoff = 500 * time.Millisecond

// LinearBackoff returns the strategy from the library's example of a wait with a deadline:
// https://pkg.go.dev/github.com/bsm/redislock#example-Client.Obtain-CustomDeadline
func LinearBackoff() redislock.RetryStrategy {
	return redislock.LinearBackoff(redislockBackoff)
}

// Redislock creates locks of bsm/redislock. It uses one Client per process, Obtain and Release, as in
// https://github.com/bsm/redislock/blob/main/README.md. It is safe for concurrent use and needs no closing.
//
// Its defaults (https://pkg.go.dev/github.com/bsm/redislock#Options):
//   - it asks once and does not wait; to wait, the caller passes a strategy, here the
//     linear backoff of its example;
//   - a wait without a deadline ends after the ttl; here it ends with its context, as
//     in the example with a deadline;
//   - an error of Redis ends the wait immediately;
//   - no refresh: the caller must call Refresh, and this adapter does not.
//
// If 5,000 callers in a process wait, they all poll at the same interval. Those that start together
// ask again together, wave after wave, and few of each wave get the lock. With an interval of half
// a second, 120 to 190 waiters a second were served on a busy machine, with 130 commands for each.
// With 50 ms, only 8 a second were served.
type Redislock struct {
	Bare   bool // see the package comment; must be set before New
	client *redislock.Client
	ttl    time.Duration
	retry  func() redislock.RetryStrategy
}

// NewRedislock returns a Redislock on rdb whose leases last for ttl. retry returns a new strategy
// for each wait, because some strategies count attempts.
func NewRedislock(rdb redis.UniversalClient, ttl time.Duration, retry func() redislock.RetryStrategy) *Redislock {
	return &Redislock{client: redislock.New(rdb), ttl: ttl, retry: retry}
}

// New returns a handle on the lock stored at key. It does not acquire the lock.
func (r *Redislock) New(key string) *RedislockMutex {
	return &RedislockMutex{lib: r, key: key}
}

// RedislockMutex is one holder's handle on a lock. It must not be used by
// several goroutines at once.
type RedislockMutex struct {
	lib  *Redislock
	key  string
	held atomic.Pointer[redislock.Lock] // nil before the first hold; Extend may read it concurrently
	ends time.Time                      // when the lease of the last hold ends, unless it is extended
}

// TryLock asks for the lock once. After an error it is not known whether the lock was acquired. If
// it was, it stays locked until the ttl is over, because the library does not reveal the token.
func (m *RedislockMutex) TryLock(ctx context.Context) (bool, error) {
	err := m.obtain(ctx, redislock.NoRetry())
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

// Lock waits in redislock's way. If ctx ends, it returns the cause of ctx. If Redis fails, it returns the
// error.
//
// If a wait ends during a request, the lock may stay locked until the ttl is over, although nobody holds it.
func (m *RedislockMutex) Lock(ctx context.Context) error {
	patient := ctx
	if !m.lib.Bare { // the library requires a deadline, but ctx ends the wait
		var cancel context.CancelFunc
		patient, cancel = context.WithTimeout(ctx, forever)
		defer cancel()
	}
	err := m.obtain(patient, m.lib.retry())
	if err != nil && !m.lib.Bare {
		if cause := over(ctx); cause != nil {
			return cause
		}
	}
	return err
}

// forever is longer than any wait in practice.
const forever = 24 * time.Hour

// obtain asks for the lock. If the request fails, an existing hold is kept.
func (m *RedislockMutex) obtain(ctx context.Context, retry redislock.RetryStrategy) error {
	last := &request{retry, time.Now()}
	held, err := m.lib.client.Obtain(ctx, m.key, m.lib.ttl, &redislock.Options{RetryStrategy: last})
	if err == nil {
		m.held.Store(held)
		m.ends = last.sent.Add(usable(m.lib.ttl))
	}
	return err
}

// request is a RetryStrategy that remembers when the last request was sent, from which the lease
// counts. The library does not tell.
type request struct {
	redislock.RetryStrategy
	sent time.Time
}

func (r *request) NextBackoff() time.Duration {
	pause := r.RetryStrategy.NextBackoff()
	r.sent = time.Now().Add(pause)
	return pause
}

// Unlock releases the lock, even if ctx is already cancelled. It returns ErrNotHeld if the lock has
// expired or belongs to another holder.
func (m *RedislockMutex) Unlock(ctx context.Context) error {
	ctx, cancel := unlocking(ctx, m.lib.Bare)
	defer cancel()
	err := m.held.Load().Release(ctx) // a nil Lock is not held either
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return err
}
