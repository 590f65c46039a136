package lock

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

func TestMain(m *testing.M) {
	locktest.Main(m, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(holds)
	})
}

// stage returns the lock of this stage.
func stage() locktest.Lock {
	return locktest.Lock{
		New: func(rdb redis.UniversalClient, key string, ttl time.Duration) locktest.Mutex {
			return New(rdb, key, ttl)
		},
		NotHeld: ErrNotHeld, Lost: ErrLost, WithOwner: WithOwner, Queue: ":queue",
		Breaks: []string{
			"a lock that nobody unlocks is free in the end",
			"a process stopped for longer than the ttl keeps the lock",
			"a retry after a lost reply does no harm",
			"a failed re-entry does not release the outer hold",
			"tokens grow if the clock goes back and Redis has lost its keys",
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// resource is guarded by the lock. It remembers the largest token it has seen, and if checks is true,
// it refuses smaller ones.
type resource struct {
	checks bool
	last   int64
}

// use reports whether a request with the token is accepted.
func (r *resource) use(token int64) bool {
	if r.checks && token < r.last {
		return false
	}
	r.last = max(r.last, token)
	return true
}

// A paused process does not notice that time passes. When it resumes, another process holds the lock,
// and the paused process does not know that yet. A resource that checks tokens refuses its writes.
func TestPausedHolderIsFenced(t *testing.T) {
	for _, checks := range []bool{true, false} {
		locktest.Scenario(t, stage(), func(w *locktest.World) {
			a, b, res := w.Holder("a"), w.Holder("b"), resource{checks: checks}
			a.MustLock()
			ctx := a.Context()
			w.FastForward(locktest.TTL) // a is paused
			b.MustLock()
			res.use(b.Token())
			w.Expect(ctx.Err() == nil, "the context has ended: %v", context.Cause(ctx))
			w.Expect(res.use(a.Token()) != checks, "with checks %v the late holder is treated the wrong way", checks)
			w.Expect(res.use(b.Token()), "the holder is refused")
			<-ctx.Done() // a's next renewal comes too late
			a.MustNotHold()
		})
	}
}
