package lock_test

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v6_watchdog"
)

// Work may take longer than the ttl. If the lock is lost, the work's context ends.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	server.ClockTTL(false) // only FastForward expires keys
	rdb := server.Client
	ctx := lock.WithOwner(context.Background(), "request 17")
	const ttl = 3 * time.Second

	holder, other := lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl)
	fmt.Println(holder.TryLock(ctx))
	work := holder.Context(ctx)
	server.FastForward(ttl * 2 / 3)
	for holder.Renewals() == 0 && work.Err() == nil {
		time.Sleep(ttl / 100) // until ttl/3 has passed
	}
	server.FastForward(ttl * 2 / 3) // more than ttl has passed since TryLock
	fmt.Println(other.TryLock(lock.WithOwner(ctx, "request 18")))

	server.Del("lock") // somebody deletes the lock, and the next renewal notices it
	<-work.Done()
	fmt.Println(context.Cause(work))
	fmt.Println(holder.Unlock(ctx))
	// Output:
	// true <nil>
	// false <nil>
	// lock: lost while held
	// lock: not held
}
