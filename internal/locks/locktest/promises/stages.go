package promises

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	v1 "oversell/internal/locks/v1_setnx"
	v2 "oversell/internal/locks/v2_ttl"
	v3 "oversell/internal/locks/v3_uuid"
	v4 "oversell/internal/locks/v4_lua"
	v5 "oversell/internal/locks/v5_reentrant"
	v6 "oversell/internal/locks/v6_watchdog"
	v7 "oversell/internal/locks/v7_queue"
	v8 "oversell/internal/locks/v8_fenced"
	v9 "oversell/internal/locks/v9_cohort"
)

// A Mutex has the methods that all stages share.
type Mutex interface {
	TryLock(ctx context.Context) (bool, error)
	Unlock(ctx context.Context) error
}

// A Stage is a lock whose promises are checked.
type Stage struct {
	Name    string // the name of its folder
	NotHeld error  // the error of Unlock when there is nothing to release

	// New returns the handle of one holder. A stage without expiry ignores ttl.
	New func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex

	// As puts the holder's name into ctx, for a stage that needs it.
	As func(ctx context.Context, who string) context.Context
}

// Stages returns the teaching stages, in order.
func Stages() []Stage {
	anonymous := func(ctx context.Context, _ string) context.Context { return ctx }
	return []Stage{
		{"v1_setnx", v1.ErrNotHeld, func(rdb redis.UniversalClient, key string, _ time.Duration) Mutex { return v1.New(rdb, key) }, anonymous},
		{"v2_ttl", v2.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v2.New(rdb, key, ttl) }, anonymous},
		{"v3_uuid", v3.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v3.New(rdb, key, ttl) }, anonymous},
		{"v4_lua", v4.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v4.New(rdb, key, ttl) }, anonymous},
		{"v5_reentrant", v5.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v5.New(rdb, key, ttl) }, v5.WithOwner},
		{"v6_watchdog", v6.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v6.New(rdb, key, ttl) }, v6.WithOwner},
		{"v7_queue", v7.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v7.New(rdb, key, ttl) }, v7.WithOwner},
		{"v8_fenced", v8.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v8.New(rdb, key, ttl) }, v8.WithOwner},
		{"v9_cohort", v9.ErrNotHeld, func(rdb redis.UniversalClient, key string, ttl time.Duration) Mutex { return v9.New(rdb, key, ttl) }, v9.WithOwner},
	}
}
