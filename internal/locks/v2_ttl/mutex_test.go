package lock

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// stage returns the lock of this stage.
func stage() locktest.Lock {
	return locktest.Lock{
		New: func(rdb redis.UniversalClient, key string, ttl time.Duration) locktest.Mutex {
			return New(rdb, key, ttl)
		},
		NotHeld: ErrNotHeld,
		Breaks: []string{
			"a late holder does not release the next holder's lock",
			"nor if it is late between two commands",
			"the holder may take the lock again",
			"work longer than the ttl keeps the lock",
			"a process stopped for longer than the ttl keeps the lock",
			"a retry after a lost reply does no harm",
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A flaw: a late holder's Unlock deletes the next holder's lock. That holder then deletes the lock of
// the holder after it, and so on.
func TestForeignDelete(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
		a.MustLock()
		w.FastForward(locktest.TTL)
		b.MustLock()
		a.MustUnlock()
		c.MustLock() // b is still working
		b.MustUnlock()
		c.MustNotHold()
	})
}
