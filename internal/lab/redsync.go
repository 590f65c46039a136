package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"oversell/internal/locks"
)

// redsyncLock is redsync as its README uses it: one pool, NewMutex for each
// holder, Lock, Unlock. The expiry is the lab's ttl, and the delay between two
// tries that of everybody else; the number of tries is redsync's own. A lease
// that has to last longer is the caller's to extend, which the README does not.
type redsyncLock struct{ *redsync.Mutex }

func newRedsync(p *Process, key string) locks.Lock {
	rs := redsync.New(goredis.NewPool(p.rdb))
	return redsyncLock{rs.NewMutex(key, redsync.WithExpiry(p.w.TTL), redsync.WithRetryDelay(p.w.Delay), redsyncPatience(p.w.TTL))}
}

// redsyncPatience is how long redsync waits for one reply. Its own twentieth
// of the expiry is kept, as long as that is not too short for a busy machine.
func redsyncPatience(ttl time.Duration) redsync.Option {
	if ttl >= 2*time.Second {
		return redsync.OptionFunc(func(*redsync.Mutex) {})
	}
	return redsync.WithTimeoutFactor(0.2)
}

// errRedsyncNotHeld wraps what UnlockContext says of a lock that is gone, or
// another's.
var errRedsyncNotHeld = errors.New("not held")

func (l redsyncLock) TryLock(ctx context.Context) (bool, error) {
	err := l.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return false, nil
	}
	return err == nil, err
}

func (l redsyncLock) Lock(ctx context.Context) error { return l.LockContext(ctx) }

func (l redsyncLock) Unlock(ctx context.Context) error {
	ok, err := l.UnlockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
		return fmt.Errorf("%w: %w", errRedsyncNotHeld, err)
	}
	if err == nil && !ok {
		return errors.New("redsync: unlock says false")
	}
	return err
}
