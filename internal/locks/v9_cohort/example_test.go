package lock_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v9_cohort"
)

// The waiters of one process hand the lock on without a request to Redis.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	rdb := server.Client
	const ttl, turns = 30 * time.Second, 100
	ctx := lock.WithOwner(context.Background(), "holder")

	holder := lock.New(rdb, "lock", ttl)
	fmt.Println(holder.Lock(ctx))
	var waiters sync.WaitGroup
	for n := range turns {
		waiters.Go(func() {
			ctx, m := lock.WithOwner(ctx, fmt.Sprint("waiter ", n)), lock.New(rdb, "lock", ttl)
			if m.Lock(ctx) == nil {
				m.Unlock(ctx)
			}
		})
	}
	time.Sleep(100 * time.Millisecond) // until all of them wait
	before := server.CommandCount()
	fmt.Println(holder.Unlock(ctx))
	waiters.Wait()
	fmt.Println("less than one command a turn:", server.CommandCount()-before < turns)
	// Output:
	// <nil>
	// <nil>
	// less than one command a turn: true
}
