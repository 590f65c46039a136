package lockbench

import (
	"context"
	"io"
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/thirdparty"
)

// libraries returns contenders with the locks of libraries, on one server, used as in their READMEs and
// examples. The counter goes through go-redis, as for all contenders.
func libraries() Catalog {
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
		{
			Name:  "rueidislock",
			Waits: "asks when the key changes",
			About: "every default: client-side caching, a lease of 5 s, 20 ms per try; and KeyMajority 1, " +
				"which its README asks for with a single server.",
			Needs: catalog.NeedsRueidis,
			Make:  madeOfRueidislock(rueidislock.LockerOption{}),
		},
		{
			Name:  "rueidislock:best",
			Waits: "asks when the key changes",
			About: "TryNextAfter as long as the lease: when thousands start together many tries take longer " +
				"than 20 ms, fail and are repeated, until nobody gets the lock. NoLoopTracking, which its " +
				"README recommends from Redis 7.0.5 on: three fewer commands per deduct.",
			Needs: catalog.NeedsRueidis,
			Make:  madeOfRueidislock(rueidislock.LockerOption{TryNextAfter: 5 * time.Second, NoLoopTracking: true}),
		},
	}
}

// ofLibrary returns the guard of a library's lock, which waits in its own way.
func ofLibrary(lock func(key string) guard.Lock) *guard.Distributed {
	return &guard.Distributed{New: lock, NotHeld: thirdparty.ErrNotHeld}
}

// madeOfRedsync returns a function that makes a guard with one pool and one Redsync for the process.
func madeOfRedsync(options ...redsync.Option) func(string, catalog.Options) (guard.Guard, error) {
	return func(_ string, o catalog.Options) (guard.Guard, error) {
		lib := thirdparty.NewRedsync(o.Redis, options...)
		return ofLibrary(func(key string) guard.Lock { return lib.New(key) }), nil
	}
}

// madeOfRedislock returns a function that makes a guard with one Client for the process.
func madeOfRedislock(retry func() redislock.RetryStrategy) func(string, catalog.Options) (guard.Guard, error) {
	return func(_ string, o catalog.Options) (guard.Guard, error) {
		lib := thirdparty.NewRedislock(o.Redis, o.TTL, retry)
		return ofLibrary(func(key string) guard.Lock { return lib.New(key) }), nil
	}
}

// randomBackoff is a RetryStrategy with a random interval.
type randomBackoff struct{}

func (randomBackoff) NextBackoff() time.Duration {
	return 250*time.Millisecond + rand.N(500*time.Millisecond)
}

// madeOfRueidislock returns a function that makes a guard with one Locker for the process, which must be
// closed.
func madeOfRueidislock(with rueidislock.LockerOption) func(string, catalog.Options) (guard.Guard, error) {
	return func(key string, o catalog.Options) (guard.Guard, error) {
		with.KeyPrefix = key
		lib := thirdparty.NewRueidislock(o.Redis, with)
		if err := lib.Open(context.Background()); err != nil {
			return nil, err
		}
		return struct {
			*guard.Distributed
			io.Closer
		}{ofLibrary(func(key string) guard.Lock { return lib.New(key) }), lib}, nil
	}
}
