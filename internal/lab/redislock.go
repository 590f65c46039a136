package lab

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"

	"oversell/internal/locks"
)

// redislockLock is bsm/redislock as its README uses it: Obtain, Release.
// Waiting is its LinearBackoff. A lease that has to last longer is the
// caller's to Refresh, which the README does not do by itself.
type redislockLock struct {
	client *redislock.Client
	key    string
	ttl    time.Duration
	delay  time.Duration

	held *redislock.Lock // what Obtain gave out
}

func newRedislock(p *Process, key string) locks.Lock {
	return &redislockLock{client: redislock.New(p.rdb), key: key, ttl: p.w.TTL, delay: p.w.Delay}
}

func (l *redislockLock) TryLock(ctx context.Context) (bool, error) {
	err := l.obtain(ctx, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

func (l *redislockLock) Lock(ctx context.Context) error {
	return l.obtain(ctx, &redislock.Options{RetryStrategy: redislock.LinearBackoff(l.delay)})
}

func (l *redislockLock) obtain(ctx context.Context, o *redislock.Options) error {
	held, err := l.client.Obtain(ctx, l.key, l.ttl, o)
	if err != nil {
		return err
	}
	l.held = held
	return nil
}

// Unlock releases what Obtain gave out. A nil Lock says that it is not held.
func (l *redislockLock) Unlock(ctx context.Context) error { return l.held.Release(ctx) }
