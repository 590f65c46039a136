package lock_test

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v2_ttl"
)

// A late holder deletes the lock of the next holder, and a third caller gets the lock.
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
	fmt.Println(late.Unlock(ctx)) // deletes holder's lock
	fmt.Println(third.TryLock(ctx))
	// Output:
	// true <nil>
	// true <nil>
	// <nil>
	// true <nil>
}
