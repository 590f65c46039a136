package lock_test

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/locks/locktest"
	lock "oversell/internal/locks/v5_reentrant"
)

// An owner may lock several times, and only its last Unlock frees the lock.
func Example() {
	server := locktest.NewServer()
	defer server.Close()
	rdb := server.Client
	ctx := lock.WithOwner(context.Background(), "request 17")
	const ttl = 30 * time.Second

	outer, inner, other := lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl), lock.New(rdb, "lock", ttl)
	fmt.Println(outer.TryLock(ctx))
	fmt.Println(inner.TryLock(ctx)) // as in a function that does not know that its caller has the lock
	fmt.Println(inner.Unlock(ctx))
	fmt.Println(other.TryLock(lock.WithOwner(ctx, "request 18")))
	fmt.Println(outer.Unlock(ctx))
	fmt.Println(other.TryLock(lock.WithOwner(ctx, "request 18")))
	// Output:
	// true <nil>
	// true <nil>
	// <nil>
	// false <nil>
	// <nil>
	// true <nil>
}
