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
		New: func(rdb redis.UniversalClient, key string, _ time.Duration) locktest.Mutex {
			return New(rdb, key)
		},
		NotHeld: ErrNotHeld,
		Breaks: []string{
			"the lock of a crashed holder is free after the ttl",
			"a failed Unlock keeps the lock for a ttl at most",
			"a lost reply keeps the lock for a ttl at most",
			"a lock that nobody unlocks is free in the end",
			"a late holder does not release the next holder's lock",
			"nor if it is late between two commands",
			"the holder may take the lock again",
			"a retry after a lost reply does no harm",
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A flaw: the lock of a dead holder stays forever.
func TestOrphanStaysForEver(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock() // then a dies
		w.FastForward(365 * 24 * time.Hour)
		b.MustNotLock()
	})
}
