package lock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// asleepIn returns the number of sleeping waiters of a client.
func asleepIn(rdb redis.UniversalClient) int {
	sleepMu.Lock()
	defer sleepMu.Unlock()
	if s := asleep[rdb]; s != nil {
		return s.blocking + len(s.polled)
	}
	return 0
}

// crowded blocks half of a client's connections and runs f, so that further waiters are polled. It checks
// that soon after f no waiter is left.
func crowded(t *testing.T, f func(w *locktest.World)) {
	t.Helper()
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		var blocked sync.WaitGroup
		half := poolSize(w.Client) / 2
		for i := range half {
			blocked.Go(func() {
				if m, err := receive(w.Client, fmt.Sprint("blocked:", i), 2*time.Second); m != "go on" || err != nil {
					t.Error(m, err)
				}
			})
		}
		synctest.Wait()
		f(w)
		for i := range half {
			if _, err := w.Push(fmt.Sprint("blocked:", i), "go on"); err != nil {
				t.Error(err)
			}
		}
		blocked.Wait()
		time.Sleep(maxPause) // until a waiter that has left is woken
		w.Expect(asleepIn(w.Client) == 0 && asleep[w.Client] == nil, "%d waiters are left", asleepIn(w.Client))
	})
}

// A polled waiter gets its message at most 20 ms late. If it is the only polled waiter, the delay is
// also at most minPause longer than the time that it has waited before the message.
func TestPolledWaiterIsWokenSoon(t *testing.T) {
	crowded(t, func(w *locktest.World) {
		for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 99 * time.Millisecond,
			900 * time.Millisecond} {
			time.AfterFunc(after, func() { _, _ = w.Push("list", after.String()) })
			start := time.Now()
			m, err := receive(w.Client, "list", time.Second)
			late := time.Since(start) - after
			if m != after.String() || err != nil || late > min(maxPause, after+minPause) {
				t.Errorf("%q, %v came %v late; want %q", m, err, late, after.String())
			}
		}
	})
}

// A polled waiter wakes at the end of its time limit, to renew its heartbeat. A message that arrives at
// that moment is received, or stays on the list.
func TestPolledWaiterMissesNoMessage(t *testing.T) {
	const limit = 100 * time.Millisecond
	crowded(t, func(w *locktest.World) {
		for _, off := range []time.Duration{-maxPause, -minPause, -1, 0, 1, minPause, maxPause} {
			pushed := make(chan error)
			go func() {
				time.Sleep(limit + off)
				_, err := w.Push("list", "held")
				pushed <- err
			}()
			start := time.Now()
			m, err := receive(w.Client, "list", limit)
			if took := time.Since(start); took > limit {
				t.Errorf("woken after %v; want %v at most", took, limit)
			}
			if err := <-pushed; err != nil {
				t.Fatal(err)
			}
			left, _ := w.List("list")
			if received := err == nil; received != (m == "held") || received == (len(left) == 1) {
				t.Errorf("%v off: received %q, %v; left on the list: %v", off, m, err, left)
			}
			w.Del("list")
		}
	})
}

// Waiters that arrive while others are polled are woken too.
func TestPolledWaitersComeAndGo(t *testing.T) {
	crowded(t, func(w *locktest.World) {
		var all sync.WaitGroup
		for i := range 100 {
			list := fmt.Sprint("list ", i)
			time.AfterFunc(time.Duration(i)*time.Millisecond, func() { _, _ = w.Push(list, list) })
			all.Go(func() {
				time.Sleep(time.Duration(99-i) * time.Millisecond / 2)
				if m, err := receive(w.Client, list, time.Second); m != list || err != nil {
					t.Errorf("%s: %q, %v", list, m, err)
				}
			})
		}
		all.Wait()
	})
}

// A client sends at most 50,000 LPOPs per second, no matter how many messages arrive and how many
// waiters it polls.
func TestPollingIsBounded(t *testing.T) {
	crowded(t, func(w *locktest.World) {
		const waiters, long = 100, 500 * time.Millisecond
		polls := w.Hook.Count(locktest.Command("lpop"))
		var all sync.WaitGroup
		for i := range waiters {
			all.Go(func() {
				if m, err := receive(w.Client, fmt.Sprint("list ", i), long); err != redis.Nil {
					t.Error(m, err)
				}
			})
		}
		for start := time.Now(); time.Since(start) < long; {
			_, _ = w.Push("busy", "on")
			if m, err := receive(w.Client, "busy", long); m != "on" {
				t.Error(m, err)
			}
		}
		all.Wait()
		if n := polls.Hits() * waiters; n < 10_000 || n > 30_000 {
			t.Errorf("%d LPOPs in half a second, want about 25,000", n)
		}
	})
}

// A polled waiter that leaves before or just as it is handed the lock passes the lock on.
func TestPolledWaiterThatLeavesHandsOn(t *testing.T) {
	for _, handed := range []bool{false, true} {
		crowded(t, func(w *locktest.World) {
			a, b, c := w.Holder("a"), New(w.Client, w.Key, locktest.TTL), w.Holder("c")
			a.MustLock()
			ctx, leave := context.WithCancel(WithOwner(a.Ctx, "b"))
			left := make(chan error, 1)
			go func() { left <- b.Lock(ctx) }()
			time.Sleep(maxPause) // b is in the queue
			served := make(chan error, 1)
			go func() { served <- c.Mutex.(*Mutex).Lock(c.Ctx) }()
			time.Sleep(maxPause)
			if !handed {
				leave()
			}
			a.MustUnlock()
			leave()
			if err := <-left; err == nil { // b got the lock before it could leave
				_ = b.Unlock(ctx)
			}
			start := time.Now()
			err := <-served
			w.Expect(err == nil &&
				time.Since(start) <= maxPause, "the next waiter: %v after %v", err, time.Since(start))
		})
	}
}
