package lock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExclusive(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		var witness locktest.Witness
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				who := fmt.Sprint("holder ", i)
				m := New(rdb, key)
				for range 20 {
					for !tryLock(t, as(t, who), m) {
						if t.Failed() {
							return
						}
						time.Sleep(time.Millisecond)
					}
					leave := witness.Enter(who)
					time.Sleep(100 * time.Microsecond)
					leave()
					unlock(t, as(t, who), m)
				}
			})
		}
		wg.Wait()
		for _, overlap := range witness.Overlaps() {
			t.Error(overlap)
		}
	})
}

func TestUnlockAfterCancel(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		a, b := New(rdb, key), New(rdb, key)

		ctx, cancel := context.WithCancel(as(t, "a"))
		mustLock(t, ctx, a)
		cancel()
		unlock(t, ctx, a)
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestUnlockNotHeld(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		m := New(rdb, locktest.Key(t))
		mustNotBeHeld(t, as(t, "a"), m)
		mustLock(t, as(t, "a"), m)
		unlock(t, as(t, "a"), m)
		mustNotBeHeld(t, as(t, "a"), m)
	})
}

func TestErrorIsNotFalse(t *testing.T) {
	s := locktest.Start(t)
	m := New(s.Client, locktest.Key(t))

	s.Hook.On(locktest.Any, 1, locktest.Fail(locktest.ErrCut))
	if ok, err := m.TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
	}
	mustLock(t, as(t, "a"), m)
	s.Hook.On(locktest.Any, 1, locktest.Fail(locktest.ErrCut))
	if err := m.Unlock(as(t, "a")); !errors.Is(err, locktest.ErrCut) {
		t.Errorf("Unlock = %v; want %v", err, locktest.ErrCut)
	}
	unlock(t, as(t, "a"), m)
}

// A flaw: the holder is gone, its lock is not.
func TestOrphanStaysForEver(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b := New(s.Client, key), New(s.Client, key)

	mustLock(t, as(t, "a"), a) // and dies
	s.FastForward(365 * 24 * time.Hour)
	mustNotLock(t, as(t, "b"), b)
}

// A flaw: a caller that got no reply cannot know that the lock is its own.
func TestLostReplyLocksOut(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b := New(s.Client, key), New(s.Client, key)

	s.Hook.On(locktest.Any, 1, locktest.LoseReply(locktest.ErrCut))
	if ok, err := a.TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
	}
	mustNotLock(t, as(t, "a"), a)
	s.FastForward(365 * 24 * time.Hour)
	mustNotLock(t, as(t, "b"), b)
}

// A flaw: Unlock was executed, and only its reply was lost. Repeated, it deletes
// the next holder's lock.
func TestRepeatedUnlock(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b, c := New(s.Client, key), New(s.Client, key), New(s.Client, key)

	mustLock(t, as(t, "a"), a)
	s.Hook.On(locktest.Command("del"), 1, locktest.LoseReply(locktest.ErrCut))
	if err := a.Unlock(as(t, "a")); !errors.Is(err, locktest.ErrCut) {
		t.Errorf("Unlock = %v; want %v", err, locktest.ErrCut)
	}
	mustLock(t, as(t, "b"), b)
	unlock(t, as(t, "a"), a)
	mustLock(t, as(t, "c"), c) // b is still working
}

// as returns a context that locks as who.
func as(t *testing.T, _ string) context.Context {
	return t.Context()
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
