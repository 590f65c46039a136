package lock

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/locks/locktest"
)

// A hold that a test leaves behind would be renewed on and on.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		mu.Lock()
		if code == 0 && len(holds) > 0 {
			fmt.Println("left behind:", holds)
			code = 1
		}
		os.Exit(code)
	}))
}

// stage is this stage's lock.
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
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A waiter that is handed the lock at once needs four commands, Unlock included. A waiter that
// waits longer needs two more commands each time that it asks again.
func TestWaitingTakesFewCommands(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		const look = locktest.TTL / 3
		a, b := w.Holder("a"), w.Holder("b")
		sent := b.Hook.Count(locktest.Any)
		for _, looks := range []int{0, 10} {
			a.MustLock()
			before := sent.Hits()
			time.AfterFunc(time.Duration(looks)*look+locktest.Tick, a.MustUnlock)
			err := b.Mutex.(*Mutex).Lock(b.Ctx)
			w.Expect(err == nil, "Lock = %v", err)
			b.MustUnlock()
			n := sent.Hits() - before
			w.Expect(n <= 4+2*looks, "%d commands for a wait of %d looks", n, looks)
		}
	})
}

// A flaw: a paused process does not see time pass. When it resumes, another process holds the lock,
// and the paused one does not know that yet.
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
		<-ctx.Done() // at its next renewal, which comes too late
		w.Expect(context.Cause(ctx) == ErrLost, "the context's cause is %v", context.Cause(ctx))
		a.MustNotHold()
		b.MustUnlock()
	})
}
