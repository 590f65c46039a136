package lock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

const (
	ttl  = locktest.TTL
	long = 2 * ttl // after this time a process no longer hands the lock on
)

func TestMain(m *testing.M) {
	locktest.Main(m, func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(cohorts)
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
			"tokens grow if the clock goes back and Redis has lost its keys",
			"a dead process is succeeded as soon as its lease has expired",
		},
	}
}

// withTTL returns the lock of this stage. Each new handle has the ttl that *ttl has at that moment.
func withTTL(ttl *time.Duration) locktest.Lock {
	lock := stage()
	lock.New = func(rdb redis.UniversalClient, key string, _ time.Duration) locktest.Mutex {
		return New(rdb, key, *ttl)
	}
	return lock
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

func mutex(h *locktest.Holder) *Mutex { return h.Mutex.(*Mutex) }

// mustBeServed ends the scenario unless the waiter has got the lock.
func mustBeServed(w *locktest.World, served locktest.Attempt, who string) {
	err := served.Now()
	w.Expect(err == nil, "%s: Lock = %v", who, err)
}

func TestFIFOInAProcess(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a := w.Holder("a")
		a.MustLock()
		sent := a.Hook.Count(locktest.Any)
		q := w.Queued()
		var want []string
		for i := range maxPasses {
			want = append(want, fmt.Sprint("waiter ", i))
			q.Add(a.Sibling(want[i]), 0)
		}
		a.MustUnlock()
		q.MustServeInOrder(0, want...)
		n := sent.Hits()
		w.Expect(n == 1, "%d commands for %d turns in one process, want the last Unlock's", n, maxPasses)
	})
}

// A process hands the lock on among its own waiters at most maxPasses times before another process gets it.
// Tokens grow from holder to holder, within a process and from one process to the next.
func TestProcessesTakeTurns(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		processes := []*locktest.Holder{w.Holder("a"), w.Holder("b"), w.Holder("c")}
		processes[0].MustLock()
		q := w.Queued()
		for p, h := range processes {
			for i := range 3 * (maxPasses + 1) {
				q.Add(h.Sibling(fmt.Sprint(p, i)), 0)
			}
		}
		processes[0].MustUnlock()
		who := q.MustServe(10 * ttl)
		longest, run := 0, 0
		for i := range who {
			if run++; i > 0 && who[i][0] != who[i-1][0] { // of another process
				run = 1
			}
			// The last turns are not checked, because no other process waits any more.
			if i < len(who)-2*(maxPasses+1) {
				longest = max(longest, run)
			}
		}
		w.Expect(longest <= maxPasses+1, "%d turns in a row in one process, want at most %d", longest, maxPasses+1)
		w.Expect(len(who) == 9*(maxPasses+1), "%d served, want %d", len(who), 9*(maxPasses+1))
	})
}

// If a waiter leaves the queue, another waiter of its process may take over its place.
func TestCancelOfOneOfMany(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		gone, leave := b.Wait()
		q := w.Queued()
		q.Add(b.Sibling("c"), 0)
		leave()
		err := <-gone
		w.Expect(errors.Is(err, context.Canceled), "Lock = %v", err)
		a.MustUnlock()
		q.MustServeInOrder(0, "c")
	})
}

// A holder whose token is refused gets a larger one. All later holders, in any process, get still
// larger ones. A holder that has lost the lock gets no new token.
func TestTokenAfter(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, other := w.Holder("a"), w.Holder("other")
		next := a.Sibling("next")
		_, err := mutex(a).TokenAfter(a.Ctx, 1)
		w.Expect(errors.Is(err, ErrNotHeld), "before the first hold: %v", err)
		a.MustLock()
		last := a.Token() + int64(time.Hour/time.Microsecond) // as if the clock had been set back by an hour
		grows := func(who string, token int64) {
			w.Expect(token > last, "%s has token %d after %d", who, token, last)
			last = token
		}
		token, err := mutex(a).TokenAfter(a.Ctx, last)
		w.Expect(err == nil && a.Token() == token, "got token %d, %v, and has %d", token, err, a.Token())
		grows("the holder", token)
		served, _ := next.Wait()
		a.MustUnlock()
		mustBeServed(w, served, "next")
		grows("the next holder in the process", next.Token())
		w.FlushAll()
		other.MustLock()
		token, err = mutex(next).TokenAfter(next.Ctx, last)
		w.Expect(errors.Is(err, ErrLost), "without the lock: token %d, %v", token, err)
		token, err = mutex(other).TokenAfter(other.Ctx, last)
		w.Expect(err == nil, "TokenAfter = %v", err)
		grows("another process, after Redis has lost its memory", token)
		next.MustNotHold()
		other.MustUnlock()
	})
}

// A flaw: a lock that nobody unlocks is renewed for as long as the process lives.
func TestForgottenUnlock(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock() // and does not unlock
		time.Sleep(100 * ttl)
		b.MustNotLock()
		a.MustUnlock()
	})
}
