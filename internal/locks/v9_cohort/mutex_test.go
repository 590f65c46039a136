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

const ttl = 3 * time.Second

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

// processes returns n clients of one server, one for each of n processes.
func processes(t *testing.T, s *locktest.Server, n int) (all []redis.UniversalClient, hooks []*locktest.Hook) {
	t.Helper()
	for range n {
		rdb, hook := s.NewClient()
		t.Cleanup(func() {
			if err := rdb.Close(); err != nil {
				t.Error(err)
			}
		})
		all, hooks = append(all, rdb), append(hooks, hook)
	}
	return all, hooks
}

// bubble runs f in virtual time, with n processes.
func bubble(
	t *testing.T, n int, f func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		rdb, hooks := processes(t, s, n)
		f(t, s, rdb, hooks)
		// Nothing runs after the last Unlock, and only keys with an expiry are left.
		time.Sleep(5 * ttl)
		synctest.Wait()
		if keys := s.Keys(); len(keys) > 0 {
			t.Errorf("left in Redis: %v", keys)
		}
	})
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

func TestPromises(t *testing.T) { locktest.Run(t, stage()) }

// order records the order in which waiters hold the lock.
type order struct {
	mu  sync.Mutex
	who []string
	all sync.WaitGroup
}

// wait starts a waiter that records its turn and releases the lock.
func (o *order) wait(t *testing.T, rdb redis.UniversalClient, key, who, note string) {
	o.all.Go(func() {
		m := New(rdb, key, ttl)
		if err := m.Lock(as(t, who)); err != nil {
			t.Error(err)
			return
		}
		o.mu.Lock()
		o.who = append(o.who, note)
		o.mu.Unlock()
		unlock(t, as(t, who), m)
	})
	synctest.Wait() // it is in the queue
}

func TestFIFOInAProcess(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		sent := hooks[0].Count(locktest.Any)
		var o order
		var want []string
		for i := range maxPasses {
			who := fmt.Sprint("waiter ", i)
			want = append(want, who)
			o.wait(t, rdb[0], key, who, who)
		}
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		if !slices.Equal(o.who, want) {
			t.Errorf("served %v, want %v", o.who, want)
		}
		if n := sent.Hits(); n != 1 {
			t.Errorf("%d commands for %d turns in one process, want the last Unlock's", n, maxPasses)
		}
	})
}

// However many waiters one process has, the others get their turn after maxPasses.
func TestProcessesTakeTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		var o order
		for p, client := range rdb {
			for i := range 3 * (maxPasses + 1) {
				o.wait(t, client, key, fmt.Sprint(p, i), fmt.Sprint(p))
			}
		}
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		longest, run := 0, 0
		for i, who := range o.who {
			if run++; i > 0 && who != o.who[i-1] {
				run = 1
			}
			// At the end nobody else waits.
			if i < len(o.who)-2*(maxPasses+1) {
				longest = max(longest, run)
			}
		}
		if longest > maxPasses+1 {
			t.Errorf("%d turns in a row in one process, want at most %d", longest, maxPasses+1)
		}
		if len(o.who) != 9*(maxPasses+1) {
			t.Errorf("%d served, want %d", len(o.who), 9*(maxPasses+1))
		}
	})
}

// A waiter of the same process may take over the place of one that has left.
func TestCancelOfOneOfMany(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		wait, cancel := context.WithCancel(as(t, "b"))
		gone := make(chan error, 1)
		go func() { gone <- New(rdb[1], key, ttl).Lock(wait) }()
		synctest.Wait()
		var o order
		o.wait(t, rdb[1], key, "c", "c")
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("Lock = %v; want %v", err, context.Canceled)
		}
		start := time.Now()
		unlock(t, as(t, "a"), a)
		o.all.Wait()
		if waited := time.Since(start); waited != 0 || len(o.who) != 1 {
			t.Errorf("%v served after %v, want c at once", o.who, waited)
		}
	})
}

// served locks m and returns how long that took.
func served(t *testing.T, m *Mutex, who string) time.Duration {
	t.Helper()
	start := time.Now()
	if err := m.Lock(as(t, who)); err != nil {
		t.Fatal(err)
	}
	return time.Since(start)
}

// A holder whose token is refused gets a later one, and so do all that come after it, in its
// process and in others. A holder that has lost the lock gets none.
func TestTokenAfter(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, next, other := New(rdb[0], key, ttl), New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		if _, err := a.TokenAfter(t.Context(), 1); !errors.Is(err, ErrNotHeld) {
			t.Errorf("before the first hold: %v, want %v", err, ErrNotHeld)
		}
		mustLock(t, as(t, "a"), a)
		last := a.Token() + int64(time.Hour/time.Microsecond) // as if the clock had gone back by an hour
		grows := func(who string, token int64) {
			if token <= last {
				t.Errorf("%s has token %d after %d", who, token, last)
			}
			last = token
		}
		token, err := a.TokenAfter(t.Context(), last)
		if err != nil || a.Token() != token {
			t.Errorf("got token %d, %v, and has %d", token, err, a.Token())
		}
		grows("the holder", token)
		served := make(chan error)
		go func() { served <- next.Lock(as(t, "next")) }()
		synctest.Wait()
		unlock(t, as(t, "a"), a)
		if err := <-served; err != nil {
			t.Fatal(err)
		}
		grows("the next holder in the process", next.Token())
		s.FlushAll()
		mustLock(t, as(t, "other"), other)
		if token, err := next.TokenAfter(t.Context(), last); !errors.Is(err, ErrLost) {
			t.Errorf("without the lock: token %d, %v, want %v", token, err, ErrLost)
		}
		if token, err = other.TokenAfter(t.Context(), last); err != nil {
			t.Error(err)
		}
		grows("another process, after Redis has lost its memory", token)
		mustNotBeHeld(t, as(t, "next"), next)
		unlock(t, as(t, "other"), other)
	})
}

// A flaw: a lock that nobody unlocks is renewed for as long as the process lives.
func TestForgottenUnlock(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a) // and returns
		time.Sleep(100 * ttl)
		mustNotLock(t, as(t, "b"), b)
		unlock(t, as(t, "a"), a)
	})
}

// as returns a context that locks as who.
func as(t *testing.T, who string) context.Context {
	return WithOwner(t.Context(), who)
}

func tryLock(t *testing.T, ctx context.Context, m *Mutex) bool {
	t.Helper()
	ok, err := m.TryLock(ctx)
	if err != nil {
		t.Error("TryLock:", err)
	}
	return ok
}

func mustLock(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if !tryLock(t, ctx, m) {
		t.Fatal("the lock is held, want it free")
	}
}

func mustNotLock(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if tryLock(t, ctx, m) {
		t.Fatal("the lock is free, want it held")
	}
}

func unlock(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if err := m.Unlock(ctx); err != nil {
		t.Error("Unlock:", err)
	}
}

func mustNotBeHeld(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	if err := m.Unlock(ctx); !errors.Is(err, ErrNotHeld) {
		t.Errorf("Unlock = %v; want %v", err, ErrNotHeld)
	}
}
