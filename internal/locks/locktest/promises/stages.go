package promises

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks"
)

// A Stage is a lock whose promises are checked.
type Stage struct {
	Name    string // the name of its folder
	NotHeld error  // the error of Unlock when there is nothing to release

	// New returns the handle of one holder. A stage without expiry ignores ttl.
	New func(rdb redis.UniversalClient, key string, ttl time.Duration) guard.Lock

	// As puts the holder's name into ctx, for a stage that needs it.
	As func(ctx context.Context, who string) context.Context
}

// Stages returns the teaching stages, in order.
func Stages() []Stage {
	var all []Stage
	for _, name := range locks.Stages() {
		s, err := catalog.Strategies().Find(name)
		if err != nil {
			panic(err) // the catalog has every stage
		}
		d := s.Distributed(catalog.Options{})
		stage := Stage{
			Name: name, NotHeld: d.NotHeld[0], As: d.WithOwner,
			New: func(rdb redis.UniversalClient, key string, ttl time.Duration) guard.Lock {
				return s.Distributed(catalog.Options{Redis: rdb, TTL: ttl}).New(key)
			},
		}
		if stage.As == nil {
			stage.As = func(ctx context.Context, _ string) context.Context { return ctx }
		}
		all = append(all, stage)
	}
	return all
}
