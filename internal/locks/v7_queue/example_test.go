package lock_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v7_queue"
)

// Waiters queue up, and each is handed the lock in turn.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	const ttl = 30 * time.Second
	take := func(name string) func() {
		ctx, m := lock.WithOwner(context.Background(), name), lock.New(server.Client, "lock", ttl)
		fmt.Println(m.Lock(ctx), name)
		return func() { m.Unlock(ctx) }
	}

	unlock := take("first")
	var waiters sync.WaitGroup
	for n, name := range []string{"second", "third"} {
		waiters.Go(func() { take(name)() })
		for waiting, _ := server.List("lock:queue"); len(waiting) <= n; waiting, _ = server.List("lock:queue") {
			time.Sleep(time.Millisecond)
		}
	}
	unlock()
	waiters.Wait()
	// Output:
	// <nil> first
	// <nil> second
	// <nil> third
}
