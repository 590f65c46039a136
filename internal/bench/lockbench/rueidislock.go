package lockbench

import (
	"context"
	"io"
	"time"

	"github.com/redis/rueidis/rueidislock"

	"oversell/internal/guard"
	"oversell/internal/locks/thirdparty"
)

// rueidislocks are rueidislock on one server, used as in its README: one Locker per
// process, WithContext, and the function that it returns to unlock. The counter goes
// through go-redis, as for all contenders.
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
				"README recommends from Redis 7.0.5 on: three commands less per deduct.",
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

// rueidisGuard is the guard of a process' Locker, which must be closed.
type rueidisGuard struct {
	*guard.Distributed
	io.Closer
}
