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
		NotHeld: ErrNotHeld, Lost: ErrLost, WithOwner: WithOwner,
		Breaks: []string{
			"a lock that nobody unlocks is free in the end",
			"a process stopped for longer than the ttl keeps the lock",
			"a retry after a lost reply does no harm",
			"a failed re-entry does not release the outer hold",
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A hold is renewed three times per ttl until the last Unlock, no matter how many times its owner has
// locked it.
func TestOneRenewer(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		outer := w.Holder("a")
		inner := outer.Sibling("a")
		renewals := outer.Hook.Count(locktest.Script(renewSource))
		outer.MustLock()
		for range 5 {
			outer.MustLock()
			inner.MustLock()
		}
		for _, want := range []int{30, 60} {
			time.Sleep(10*locktest.TTL + locktest.Tick)
			n := renewals.Hits()
			w.Expect(n == want, "%d renewals; want %d", n, want)
			for range 5 * (want / 60) {
				inner.MustUnlock()
			}
		}
		for _, h := range []*locktest.Holder{outer, inner} {
			n := h.Mutex.(*Mutex).Renewals()
			w.Expect(n == 60, "a handle counts %d renewals; want 60: it is one hold", n)
		}
		for range 6 {
			outer.MustUnlock()
		}
		time.Sleep(locktest.TTL)
		w.Expect(renewals.Hits() == 60, "renewed after the last Unlock")
	})
}

// A flaw: a paused process does not notice that time passes. When it resumes, another process holds the
// lock, and the paused process does not know that yet.
func TestPausedHolderWritesTooLate(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		var witness locktest.Witness
		a.MustLock()
		witness.Enter("a")
		ctx := a.Context()
		w.FastForward(locktest.TTL) // a is paused
		b.MustLock()
		witness.Enter("b")
		w.Expect(ctx.Err() == nil, "the context has ended: %v", context.Cause(ctx))
		w.Expect(witness.Most() == 2, "there were not two holders at once")
		<-ctx.Done() // a's next renewal comes too late
		w.Expect(context.Cause(ctx) == ErrLost, "the context's cause is %v", context.Cause(ctx))
		a.MustNotHold()
		b.MustUnlock()
	})
}
