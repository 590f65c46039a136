package lab

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/guard"
	"oversell/internal/guard/keymutex"
	"oversell/internal/locks/thirdparty"
)

// newRedsync makes redsync's lock with the lab's ttl, and the delay between two tries that
// all locks have here. The number of tries is redsync's own, and nothing extends the lease.
func newRedsync(p *Process, key string) guard.Lock { return redsyncWith(p, key) }

// newRedsyncExtended makes redsync's lock with its options: WithTries, so that a waiter does not
// give up, and ExtendContext.
func newRedsyncExtended(p *Process, key string) guard.Lock {
	return thirdparty.Extend(redsyncWith(p, key, redsync.WithTries(math.MaxInt)), p.w.TTL, p.life)
}

func redsyncWith(p *Process, key string, more ...redsync.Option) *thirdparty.RedsyncMutex {
	options := append([]redsync.Option{redsync.WithExpiry(p.w.TTL), redsync.WithRetryDelay(p.w.Delay)}, more...)
	if p.w.TTL < 2*time.Second { // redsync's own limit for a reply is too short for a busy machine
		options = append(options, redsync.WithTimeoutFactor(0.2))
	}
	lib := thirdparty.NewRedsync(p.rdb, options...)
	lib.Bare = true
	return lib.New(key)
}

// newRedislock makes redislock's lock with a linear backoff. Nothing refreshes the lease.
func newRedislock(p *Process, key string) guard.Lock { return redislockOf(p, key) }

// newRedislockRefreshed makes redislock's lock with its Refresh.
func newRedislockRefreshed(p *Process, key string) guard.Lock {
	return thirdparty.Extend(redislockOf(p, key), p.w.TTL, p.life)
}

func redislockOf(p *Process, key string) *thirdparty.RedislockMutex {
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

// localLock is a handle on the mutex of a process.
type localLock struct {
	p    *Process
	key  string
	hold *keymutex.Hold
	stop func() bool // so that the end of the process does not unlock
}

func newLocalLock(p *Process, key string) guard.Lock { return &localLock{p: p, key: key} }

var errNotTaken = errors.New("lab: the mutex was not locked by this caller")

func (l *localLock) TryLock(context.Context) (bool, error) {
	hold := l.p.mutex.Mutex.TryLock(l.key)
	if hold == nil {
		return false, nil
	}
	l.took(hold)
	return true, nil
}

func (l *localLock) Lock(ctx context.Context) error {
	hold, err := l.p.mutex.Mutex.Lock(ctx, l.key)
	if err == nil {
		l.took(hold)
	}
	return err
}

// took notes the hold, which ends with the process at the latest.
func (l *localLock) took(hold *keymutex.Hold) {
	l.hold, l.stop = hold, context.AfterFunc(l.p.life, hold.Unlock)
}

func (l *localLock) Unlock(context.Context) error {
	if l.hold == nil {
		return errNotTaken
	}
	if l.stop() {
		l.hold.Unlock()
	}
	l.hold = nil
	return nil
}
