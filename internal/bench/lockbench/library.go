package lockbench

import (
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/guard"
	"oversell/internal/locks/thirdparty"
)

// redsyncs returns contenders with redsync on one server, used as in its README: one pool
// and one Redsync per process, NewMutex for each holder, Lock, Unlock.
func redsyncs() Catalog {
	return Catalog{
		{
			Name:  "redsync",
			Waits: "asks every 50 to 250 ms, 32 times",
			About: "every default: a lease of 8 s, 32 tries, a random 50 to 250 ms between two. " +
				"A contender that fails 32 times gets an error.",
			Make: madeOfRedsync(),
		},
		{
			Name:  "redsync:best",
			Waits: "asks every 0.2 to 1 s",
			About: "Tries without end, so that no contender is refused. The delay is longer than the default, " +
				"not shorter: each failed try is a SET and a script, and the tries of thousands delay the " +
				"holder's release.",
			Make: madeOfRedsync(
				redsync.WithTries(1<<30),
				redsync.WithRetryDelayFunc(func(int) time.Duration {
					return 200*time.Millisecond + rand.N(800*time.Millisecond)
				}),
				redsync.WithFailFast(true),
			),
		},
	}
}

func madeOfRedsync(options ...redsync.Option) func(Process) (guard.Guard, error) {
	return func(p Process) (guard.Guard, error) {
		lib := thirdparty.NewRedsync(p.Redis, options...)
		return ofLibrary(func(key string) guard.Lock { return lib.New(key) }), nil
	}
}

// ofLibrary returns the guard of a library's lock, which waits in its own way.
func ofLibrary(lock func(key string) guard.Lock) *guard.Distributed {
	return &guard.Distributed{New: lock, NotHeld: thirdparty.ErrNotHeld}
}

// redislocks returns contenders with bsm/redislock, used as in its examples: one Client
// per process, Obtain, Release.
func redislocks() Catalog {
	return Catalog{
		{
			Name:  "redislock",
			Waits: "asks every 500 ms",
			About: "LinearBackoff of 500 ms and a deadline, as in its example of a custom deadline; without " +
				"options it does not wait at all. It has no default lease and uses the run's.",
			Make: madeOfRedislock(thirdparty.LinearBackoff),
		},
		{
			Name:  "redislock:best",
			Waits: "asks every 250 to 750 ms",
			About: "a custom RetryStrategy with a random delay. Its own strategies have fixed intervals, so " +
				"that contenders that start together retry together, and only a few of each wave get the lock.",
			Make: madeOfRedislock(func() redislock.RetryStrategy { return randomBackoff{} }),
		},
	}
}

// randomBackoff is a RetryStrategy with a random interval.
type randomBackoff struct{}

func (randomBackoff) NextBackoff() time.Duration {
	return 250*time.Millisecond + rand.N(500*time.Millisecond)
}

func madeOfRedislock(retry func() redislock.RetryStrategy) func(Process) (guard.Guard, error) {
	return func(p Process) (guard.Guard, error) {
		lib := thirdparty.NewRedislock(p.Redis, p.TTL, retry)
		return ofLibrary(func(key string) guard.Lock { return lib.New(key) }), nil
	}
}

// rueidislocks returns contenders with rueidislock on one server, used as in its README:
// one Locker per process, WithContext, and the function that WithContext returns, which
// unlocks. The counter goes through go-redis, as for all contenders.
func rueidislocks() Catalog {
	return Catalog{
		{
			Name:  "rueidislock",
			Waits: "asks when the key changes",
			About: "every default: client-side caching, a lease of 5 s, 20 ms per try; and KeyMajority 1, " +
				"which its README asks for with a single server.",
			Tracking: true,
			Make:     madeOfRueidislock(rueidislock.LockerOption{}),
		},
		{
			Name:  "rueidislock:best",
			Waits: "asks when the key changes",
			About: "TryNextAfter as long as the lease: when thousands start together many tries take longer " +
				"than 20 ms, fail and are repeated, until nobody gets the lock. NoLoopTracking, which its " +
				"README recommends from Redis 7.0.5 on: three fewer commands per deduct.",
			Tracking: true,
			Make:     madeOfRueidislock(rueidislock.LockerOption{TryNextAfter: 5 * time.Second, NoLoopTracking: true}),
		},
	}
}

func madeOfRueidislock(o rueidislock.LockerOption) func(Process) (guard.Guard, error) {
	return func(p Process) (guard.Guard, error) {
		o.KeyPrefix = p.Key
		lib := thirdparty.NewRueidislock(p.Redis, o)
		if err := lib.Open(context.Background()); err != nil {
			return nil, err
		}
		return rueidisGuard{ofLibrary(func(key string) guard.Lock { return lib.New(key) }), lib}, nil
	}
}

// rueidisGuard is the guard of a process's Locker, which must be closed.
type rueidisGuard struct {
	*guard.Distributed
	io.Closer
}
