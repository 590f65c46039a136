package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// redislockBackoff is the delay of the library's example of a wait with a
// deadline of its own:
// https://pkg.go.dev/github.com/bsm/redislock#example-Client.Obtain-CustomDeadline
const redislockBackoff = 500 * time.Millisecond

// Redislock makes the locks of bsm/redislock: one Client a process, Obtain and
// Release, as in https://github.com/bsm/redislock/blob/main/README.md. It is
// safe for concurrent use and needs no closing.
//
// Its defaults (https://pkg.go.dev/github.com/bsm/redislock#Options):
//   - it asks once and does not wait; whoever wants to wait says how, here by
//     the linear backoff of its example;
//   - a wait without a deadline ends after the ttl; here it ends with its
//     context, as in the example that gives a deadline;
//   - an error of Redis ends the wait at once;
//   - no refresh: Refresh is for the caller, and nobody calls it here.
//
// 5,000 waiters in a process all ask by themselves, each in the same rhythm:
// those who set out together come back together, wave after wave, and of each
// wave few get in. At its half second 120 to 190 a second were served on a busy
// machine, with 130 commands for each; at 50 ms it was 8.
type Redislock struct {
	client *redislock.Client
	ttl    time.Duration
}

// NewRedislock returns the locks on rdb, with leases of ttl.
func NewRedislock(rdb redis.UniversalClient, ttl time.Duration) *Redislock {
	return &Redislock{client: redislock.New(rdb), ttl: ttl}
}

// New returns a handle on the lock that lives at key. It does not take it.
func (r *Redislock) New(key string) *RedislockMutex {
	return &RedislockMutex{lib: r, key: key}
}

// RedislockMutex is one holder's handle on a lock. It must not be used by
// several goroutines at once.
type RedislockMutex struct {
	lib  *Redislock
	key  string
	held *redislock.Lock // what Obtain gave out; nil without a hold
}

// TryLock asks for the lock once. After an error it is not known whether it was
// taken, and only the ttl gives it back: the library keeps the token to itself.
func (m *RedislockMutex) TryLock(ctx context.Context) (bool, error) {
	err := m.obtain(ctx, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

// Lock waits as redislock does. It returns the cause of ctx when that has ended,
// or the error of Redis.
//
// A wait that ends while redislock asks may leave the lock behind until the ttl
// is over, taken by nobody.
func (m *RedislockMutex) Lock(ctx context.Context) error {
	// The library asks for a deadline, and for nothing but that: ctx says by
	// itself when it has ended.
	patient, cancel := context.WithTimeout(ctx, forever)
	defer cancel()
	err := m.obtain(patient, &redislock.Options{RetryStrategy: redislock.LinearBackoff(redislockBackoff)})
	if err != nil {
		if cause := over(ctx); cause != nil {
			return cause
		}
	}
	return err
}

// forever is longer than anybody waits.
const forever = 24 * time.Hour

func (m *RedislockMutex) obtain(ctx context.Context, o *redislock.Options) (err error) {
	m.held, err = m.lib.client.Obtain(ctx, m.key, m.lib.ttl, o)
	return err
}

// Unlock gives the lock back, even when ctx is cancelled already. It returns
// ErrNotHeld when the lock has expired or is another's.
func (m *RedislockMutex) Unlock(ctx context.Context) error {
	ctx, cancel := unlocking(ctx)
	defer cancel()
	err := m.held.Release(ctx) // which tells a nil Lock that it is not held
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return err
}
