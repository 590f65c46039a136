package lockbench

import (
	"math/rand/v2"
	"time"

	"github.com/bsm/redislock"

	"oversell/internal/guard"
	"oversell/internal/locks/thirdparty"
)

// redislocks are bsm/redislock, used as in its examples: one Client per process, Obtain,
// Release.
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
