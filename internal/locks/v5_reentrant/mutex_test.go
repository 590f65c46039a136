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
		NotHeld: ErrNotHeld, WithOwner: WithOwner,
		Breaks: []string{
			"work longer than the ttl keeps the lock",
			"a process stopped for longer than the ttl keeps the lock",
			"a retry after a lost reply does no harm",
			"a failed re-entry does not release the outer hold",
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A holder that locks again with another ttl may lengthen its lease, but never shortens it.
func TestInnerTTLShortensNothing(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		outer := w.Holder("a")
		outer.MustLock()
		for _, ttl := range []time.Duration{locktest.TTL / 10, 2 * locktest.TTL} {
			if ok, err := New(w.Client, w.Key, ttl).TryLock(outer.Ctx); !ok {
				t.Fatal("TryLock:", err)
			}
			left := w.TTL(w.Key)
			w.Expect(left == max(ttl, locktest.TTL), "after a re-entry with the ttl %v %v are left", ttl, left)
		}
	})
}

// A flaw: the lock expires while its holder still works.
func TestExpiresUnderItsHolder(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		var witness locktest.Witness
		a.MustLock()
		witness.Enter("a")
		w.FastForward(locktest.TTL) // a is still working
		b.MustLock()
		witness.Enter("b")
		b.MustUnlock()
		w.Expect(witness.Most() == 2, "there were not two holders at once")
		a.MustNotHold()
	})
}
