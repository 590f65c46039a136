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
			"the holder may take the lock again",
			"work longer than the ttl keeps the lock",
			"a process stopped for longer than the ttl keeps the lock",
			"a retry after a lost reply does no harm",
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A flaw: a holder that calls Lock again waits for its own lock.
func TestNotReentrant(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		outer := w.Holder("a")
		inner := outer.Sibling("a")
		outer.MustLock()
		outer.MustNotLock()
		inner.MustNotLock()
		outer.MustUnlock()
	})
}
