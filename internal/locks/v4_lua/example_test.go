package lock_test

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v4_lua"
)

// Unlock is one command. The lock may change hands before the command, but not while it runs.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	rdb := server.Client
	ctx := context.Background()
	const ttl = 30 * time.Second

	late, holder, third := lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl)
	server.Hook.On(locktest.Command("evalsha"), 1, func(_ context.Context, send func() error) error {
		server.FastForward(ttl) // late is delayed before it sends its script
		fmt.Println(holder.TryLock(ctx))
		return send()
	})
	fmt.Println(late.TryLock(ctx))
	fmt.Println(late.Unlock(ctx))
	fmt.Println(third.TryLock(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// lock: not held
	// false <nil>
}
