package lock_test

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v3_uuid"
)

// A late holder's Unlock finds another holder's token, and does not delete the lock.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	rdb := server.Client
	ctx := context.Background()
	const ttl = 30 * time.Second

	late, holder, third := lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl)
	fmt.Println(late.TryLock(ctx))
	server.FastForward(ttl) // late's lock has expired
	fmt.Println(holder.TryLock(ctx))
	fmt.Println(late.Unlock(ctx)) // finds holder's token
	fmt.Println(third.TryLock(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// lock: not held
	// false <nil>
}

// The lock can change hands between the GET and the DEL of an Unlock.
func Example_checkThenDelete() {
	server := locktest.NewServer()
	defer server.Close()
	rdb := server.Client
	ctx := context.Background()
	const ttl = 30 * time.Second

	late, holder, third := lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl)
	server.Hook.On(locktest.Command("del"), 1, func(_ context.Context, send func() error) error {
		server.FastForward(ttl) // late has read its own token, and is delayed before its DEL
		fmt.Println(holder.TryLock(ctx))
		return send()
	})
	fmt.Println(late.TryLock(ctx))
	fmt.Println(late.Unlock(ctx))
	fmt.Println(third.TryLock(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// <nil>
	// true <nil>
}
