package lockbench

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"

	"oversell/internal/locks"
)

// redislocks are bsm/redislock, used as its examples do: one Client a process,
// Obtain, Release.
func redislocks() Catalog {
	return Catalog{
		{
			Name:  "redislock",
			Waits: "asks every 500 ms",
			About: "LinearBackoff of 500 ms and a deadline, as its documentation's example of a custom deadline " +
				"has it; with no options it does not wait at all. The lease is the run's, for it has none of its own.",
			Make: madeOfRedislock(func() redislock.RetryStrategy { return redislock.LinearBackoff(500 * time.Millisecond) }),
		},
		{
			Name:  "redislock:best",
			Waits: "asks every 250 to 750 ms",
			About: "a RetryStrategy of the caller's: a random delay. Each of its own strategies has a fixed " +
				"rhythm, so that those who set out together come back together, each time, and but a few of " +
				"each wave get in.",
			Make: madeOfRedislock(func() redislock.RetryStrategy { return randomBackoff{} }),
		},
	}
}

// randomBackoff is a RetryStrategy without a rhythm.
type randomBackoff struct{}

func (randomBackoff) NextBackoff() time.Duration {
	return 250*time.Millisecond + rand.N(500*time.Millisecond)
}

func madeOfRedislock(retry func() redislock.RetryStrategy) func(Process) (locks.Guard, error) {
	return func(p Process) (locks.Guard, error) {
		client := redislock.New(p.Redis)
		return &locks.Distributed{
			New: func(key string) locks.Lock {
				return &redislockLock{client: client, key: key, ttl: p.TTL, retry: retry}
			},
			Policy:  locks.Blocking{},
			NotHeld: []error{redislock.ErrLockNotHeld},
		}, nil
	}
}

// redislockLock has redislock wait in its own way.
type redislockLock struct {
	client *redislock.Client
	key    string
	ttl    time.Duration
	retry  func() redislock.RetryStrategy // one for each wait: some count

	held *redislock.Lock // what Obtain gave out
}

func (l *redislockLock) TryLock(ctx context.Context) (bool, error) {
	err := l.obtain(ctx, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLock) Lock(ctx context.Context) error {
	return l.obtain(ctx, &redislock.Options{RetryStrategy: l.retry()})
}

func (l *redislockLock) obtain(ctx context.Context, o *redislock.Options) (err error) {
	l.held, err = l.client.Obtain(ctx, l.key, l.ttl, o)
	return err
}

func (l *redislockLock) Unlock(ctx context.Context) error { return l.held.Release(ctx) }
