package lock

import (
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
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A waiter that is handed the lock at once needs four commands, including Unlock. A waiter that
// waits longer needs two more commands each time it asks again.
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
