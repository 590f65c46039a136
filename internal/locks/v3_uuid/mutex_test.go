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
			"nor if it is late between two commands",
			"the holder may take the lock again",
			"work longer than the ttl keeps the lock",
			"a process stopped for longer than the ttl keeps the lock",
			"a retry after a lost reply does no harm",
		},
	}
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// A flaw: an Unlock that is paused between its GET and its DEL deletes another holder's lock.
func TestCheckThenDelete(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b, c := w.Holder("a"), w.Holder("b"), w.Holder("c")
		a.MustLock()
		pause := locktest.NewPause()
		a.Hook.On(locktest.Command("del"), 1, pause.Before)
		unlocked := make(chan error)
		go func() { unlocked <- a.Mutex.Unlock(a.Ctx) }()
		<-pause.Parked()
		w.FastForward(locktest.TTL)
		b.MustLock()
		pause.Release()
		err := <-unlocked
		w.Expect(err == nil, "Unlock = %v; it deleted the lock of b without knowing it", err)
		c.MustLock() // b is still working
	})
}
