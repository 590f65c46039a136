package lab

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/guard"
	"oversell/internal/locks/thirdparty"
)

// newRedsync makes redsync's lock with the lab's ttl, and the delay between two tries that
// all locks have here. The number of tries is redsync's own, and nothing extends the lease.
func newRedsync(p *Process, key string) guard.Lock {
	options := []redsync.Option{redsync.WithExpiry(p.w.TTL), redsync.WithRetryDelay(p.w.Delay)}
	if p.w.TTL < 2*time.Second { // redsync's own limit for a reply is too short for a busy machine
		options = append(options, redsync.WithTimeoutFactor(0.2))
	}
	lib := thirdparty.NewRedsync(p.rdb, options...)
	lib.Bare = true
	return lib.New(key)
}

// newRedislock makes redislock's lock with a linear backoff. Nothing refreshes the lease.
func newRedislock(p *Process, key string) guard.Lock {
	wait := func() redislock.RetryStrategy { return redislock.LinearBackoff(p.w.Delay) }
	lib := thirdparty.NewRedislock(p.rdb, p.w.TTL, wait)
	lib.Bare = true
	return lib.New(key)
}

func newRueidislock(p *Process, key string) guard.Lock { return p.rueidis.New(key) }

// rueidis makes a process's rueidislock. DisableCache, a documented option, makes it poll:
// the embedded Redis has no client tracking, and with one behaviour on every server the
// tables can be compared.
func (w *World) rueidis(rdb redis.UniversalClient) *thirdparty.Rueidislock {
	lib := thirdparty.NewRueidislock(rdb, rueidislock.LockerOption{
		KeyValidity:  w.TTL,
		TryNextAfter: w.TTL / 20, // a try that takes longer fails
		ClientOption: rueidis.ClientOption{DisableCache: true, ClientSetInfo: rueidis.DisableClientSetInfo},
	})
	lib.Bare = true
	return lib
}

// localLock is a handle on a mutex in the process, which by itself only runs
// sections: the section waits until Unlock.
type localLock struct {
	mutex *guard.Local
	key   string
	life  context.Context

	leave chan struct{}
	left  chan struct{}
}

func newLocalLock(p *Process, key string) guard.Lock {
	return &localLock{mutex: p.mutex, key: key, life: p.life}
}

// errNotTaken is what Unlock says to who has not locked.
var errNotTaken = errors.New("lab: the mutex was not locked by this caller")

// TryLock takes the mutex if it is free. The mutex cannot be asked without
// waiting, so this waits, but not for long.
func (l *localLock) TryLock(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tryFor)
	defer cancel()
	err := l.Lock(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// tryFor is how long a try waits: much less than any ttl.
const tryFor = 2 * time.Millisecond

func (l *localLock) Lock(ctx context.Context) error {
	entered, leave, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var err error
	go func() {
		defer close(left)
		_, err = l.mutex.Do(ctx, guard.Entry{Key: l.key}, func(context.Context) error {
			close(entered)
			select {
			case <-leave:
			case <-l.life.Done(): // the mutex dies with its process
			}
			return nil
		})
	}()
	select {
	case <-entered:
		l.leave, l.left = leave, left
		return nil
	case <-left:
		return err
	}
}

func (l *localLock) Unlock(context.Context) error {
	if l.leave == nil {
		return errNotTaken
	}
	close(l.leave)
	<-l.left
	l.leave = nil
	return nil
}
