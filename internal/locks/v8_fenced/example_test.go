package lock_test

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v8_fenced"
)

// The next holder has a larger token, so the resource can refuse a late holder.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	rdb := server.Client
	a, b := lock.WithOwner(context.Background(), "a"), lock.WithOwner(context.Background(), "b")
	const ttl = 30 * time.Second

	var largest int64 // the largest token that the resource has seen
	write := func(token int64) bool {
		largest = max(largest, token)
		return token == largest
	}

	paused, next := lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl)
	fmt.Println(paused.TryLock(a))
	server.FastForward(ttl) // the process is paused and does not renew
	fmt.Println(next.TryLock(b))
	fmt.Println("write of b:", write(next.Token()))
	fmt.Println("write of a:", write(paused.Token())) // the paused process continues
	fmt.Println(paused.Unlock(a), next.Unlock(b))
	// Output:
	// true <nil>
	// true <nil>
	// write of b: true
	// write of a: false
	// lock: not held <nil>
}
