package lock_test

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v1_setnx"
)

// If a holder dies, nobody else ever gets the lock.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	rdb := server.Client
	ctx := context.Background()

	dead, next := lock.New(rdb, "lock"), lock.New(rdb, "lock")
	fmt.Println(dead.TryLock(ctx)) // then its process is killed
	server.FastForward(24 * time.Hour)
	fmt.Println(next.TryLock(ctx))
	// Output:
	// true <nil>
	// false <nil>
}
