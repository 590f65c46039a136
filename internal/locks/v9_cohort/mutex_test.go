package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/locks/locktest"
)

const (
	ttl  = locktest.TTL
	long = 2 * ttl // for a process not to hand the lock on any more
)

// A hold that a test leaves behind would be renewed on and on.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		mu.Lock()
		if code == 0 && len(cohorts) > 0 {
			fmt.Println("left behind:", cohorts)
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
			"tokens grow if the clock goes back and Redis has lost its keys",
			"a dead process is succeeded as soon as its lease has expired",
		},
	}
}

// withTTL returns this stage's lock, with the ttl that *ttl has when a handle is made.
func withTTL(ttl *time.Duration) locktest.Lock {
	lock := stage()
	lock.New = func(rdb redis.UniversalClient, key string, _ time.Duration) locktest.Mutex {
		return New(rdb, key, *ttl)
	}
	return lock
}

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

func mutex(h *locktest.Holder) *Mutex { return h.Mutex.(*Mutex) }

// begin starts a Lock, and returns when the holder waits or has the lock.
func begin(ctx context.Context, h *locktest.Holder) (served <-chan error) {
	got := make(chan error, 1)
	go func() { got <- mutex(h).Lock(ctx) }()
	synctest.Wait()
	return got
}

// mustBeServed ends the scenario unless a wait has ended with the lock.
func mustBeServed(w *locktest.World, served <-chan error, who string) {
	synctest.Wait()
	select {
	case err := <-served:
		w.Expect(err == nil, "%s: Lock = %v", who, err)
	default:
		w.Expect(false, "%s still waits", who)
	}
}

// order records the order in which waiters hold the lock, and their tokens.
type order struct {
	all sync.WaitGroup

	mu     sync.Mutex
	who    []string
	tokens []int64
	failed error
}

// wait starts a waiter that records its turn and releases the lock.
func (o *order) wait(h *locktest.Holder, note string) {
	o.all.Go(func() {
		err := mutex(h).Lock(h.Ctx)
		o.mu.Lock()
		if err == nil {
			o.who, o.tokens = append(o.who, note), append(o.tokens, h.Token())
		}
		o.mu.Unlock()
		if err == nil {
			err = h.Mutex.Unlock(h.Ctx)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.failed = errors.Join(o.failed, err)
	})
	synctest.Wait() // it is in the queue
}

// served waits until all waiters have had the lock, and returns them in the order in which they had
// it. A later holder must have a larger token.
func (o *order) served(w *locktest.World) []string {
	o.all.Wait()
	w.Expect(o.failed == nil, "a waiter fails: %v", o.failed)
	for i := 1; i < len(o.tokens); i++ {
		w.Expect(o.tokens[i-1] < o.tokens[i], "%s has token %d after %d", o.who[i], o.tokens[i], o.tokens[i-1])
	}
	return o.who
}

func TestFIFOInAProcess(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a := w.Holder("a")
		a.MustLock()
		sent := a.Hook.Count(locktest.Any)
		var o order
		var want []string
		for i := range maxPasses {
			who := fmt.Sprint("waiter ", i)
			want = append(want, who)
			o.wait(a.Sibling(who), who)
		}
		a.MustUnlock()
		got := o.served(w)
		w.Expect(slices.Equal(got, want), "served %v, want %v", got, want)
		n := sent.Hits()
		w.Expect(n == 1, "%d commands for %d turns in one process, want the last Unlock's", n, maxPasses)
	})
}

// The other processes get their turn after maxPasses, no matter how many waiters one process has.
// Tokens grow from holder to holder, within a process and from one process to the next.
func TestProcessesTakeTurns(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		processes := []*locktest.Holder{w.Holder("a"), w.Holder("b"), w.Holder("c")}
		processes[0].MustLock()
		var o order
		for p, h := range processes {
			for i := range 3 * (maxPasses + 1) {
				o.wait(h.Sibling(fmt.Sprint(p, i)), fmt.Sprint(p))
			}
		}
		processes[0].MustUnlock()
		who := o.served(w)
		longest, run := 0, 0
		for i := range who {
			if run++; i > 0 && who[i] != who[i-1] {
				run = 1
			}
			// At the end nobody else waits.
			if i < len(who)-2*(maxPasses+1) {
				longest = max(longest, run)
			}
		}
		w.Expect(longest <= maxPasses+1, "%d turns in a row in one process, want at most %d", longest, maxPasses+1)
		w.Expect(len(who) == 9*(maxPasses+1), "%d served, want %d", len(who), 9*(maxPasses+1))
	})
}

// A waiter of the same process may take over the place of one that has left.
func TestCancelOfOneOfMany(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		ctx, leave := context.WithCancel(b.Ctx)
		gone := begin(ctx, b)
		var o order
		o.wait(b.Sibling("c"), "c")
		leave()
		err := <-gone
		w.Expect(errors.Is(err, context.Canceled), "Lock = %v", err)
		start := time.Now()
		a.MustUnlock()
		who := o.served(w)
		w.Expect(time.Since(start) == 0 && len(who) == 1, "%v served after %v, want c at once", who, time.Since(start))
	})
}

// A holder whose token is refused gets a later one, and so do all that come after it, in its
// process and in others. A holder that has lost the lock gets none.
func TestTokenAfter(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, other := w.Holder("a"), w.Holder("other")
		next := a.Sibling("next")
		_, err := mutex(a).TokenAfter(a.Ctx, 1)
		w.Expect(errors.Is(err, ErrNotHeld), "before the first hold: %v", err)
		a.MustLock()
		last := a.Token() + int64(time.Hour/time.Microsecond) // as if the clock had gone back by an hour
		grows := func(who string, token int64) {
			w.Expect(token > last, "%s has token %d after %d", who, token, last)
			last = token
		}
		token, err := mutex(a).TokenAfter(a.Ctx, last)
		w.Expect(err == nil && a.Token() == token, "got token %d, %v, and has %d", token, err, a.Token())
		grows("the holder", token)
		served := begin(next.Ctx, next)
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
		a.MustLock() // and returns
		time.Sleep(100 * ttl)
		b.MustNotLock()
		a.MustUnlock()
	})
}
