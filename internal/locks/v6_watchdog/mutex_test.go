package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
)

const ttl = 30 * time.Second

// A hold that a test leaves behind would be renewed on and on.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		mu.Lock()
		if code == 0 && len(holds) > 0 {
			fmt.Println("left behind:", holds)
			code = 1
		}
		os.Exit(code)
	}))
}

func TestExclusive(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		var witness locktest.Witness
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				who := fmt.Sprint("holder ", i)
				m := New(rdb, key, ttl)
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
		a, b := New(rdb, key, ttl), New(rdb, key, ttl)

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
		m := New(rdb, locktest.Key(t), ttl)
		mustNotBeHeld(t, as(t, "a"), m)
		mustLock(t, as(t, "a"), m)
		unlock(t, as(t, "a"), m)
		mustNotBeHeld(t, as(t, "a"), m)
	})
}

func TestErrorIsNotFalse(t *testing.T) {
	s := locktest.Start(t)
	m := New(s.Client, locktest.Key(t), ttl)

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

func TestDeadHolderExpires(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b := New(s.Client, key, ttl), New(s.Client, key, ttl)

	mustLock(t, as(t, "a"), a) // and dies
	die(t, as(t, "a"), a)
	s.FastForward(ttl - time.Millisecond)
	mustNotLock(t, as(t, "b"), b)
	s.FastForward(time.Millisecond)
	mustLock(t, as(t, "b"), b)
	unlock(t, as(t, "b"), b)
}

// The same test by the server's own clock.
func TestDeadHolderExpiresInTime(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		const ttl = 100 * time.Millisecond
		key := locktest.Key(t)
		a, b := New(rdb, key, ttl), New(rdb, key, ttl)

		start := time.Now()
		mustLock(t, as(t, "a"), a) // and dies
		die(t, as(t, "a"), a)
		for !tryLock(t, as(t, "b"), b) {
			if time.Since(start) > 50*ttl {
				t.Fatal("the lock does not expire")
			}
			time.Sleep(ttl / 20)
		}
		if waited := time.Since(start); waited < ttl/2 {
			t.Errorf("the lock expired after %v; ttl is %v", waited, ttl)
		}
		unlock(t, as(t, "b"), b)
	})
}

func TestLateUnlockSparesForeignLock(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b, c := New(s.Client, key, ttl), New(s.Client, key, ttl), New(s.Client, key, ttl)

	mustLock(t, as(t, "a"), a)
	s.FastForward(ttl)
	mustLock(t, as(t, "b"), b)
	mustNotBeHeld(t, as(t, "a"), a)
	mustNotLock(t, as(t, "c"), c)
	unlock(t, as(t, "b"), b)
}

func TestUnlockAfterLostReply(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b := New(s.Client, key, ttl), New(s.Client, key, ttl)

	s.Hook.On(locktest.Any, 1, locktest.LoseReply(locktest.ErrCut))
	if ok, err := a.TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
	}
	mustNotLock(t, as(t, "b"), b)
	unlock(t, as(t, "a"), a)
	mustLock(t, as(t, "b"), b)
	unlock(t, as(t, "b"), b)
}

// The pauses that show the gap of stage 3 show none here: Unlock is one command,
// and before and after it another's lock stays as it is.
func TestNoHoleInUnlock(t *testing.T) {
	for _, executed := range []bool{false, true} {
		s := locktest.Start(t)
		rdb, hook := s.NewClient() // for a alone
		defer rdb.Close()
		key := locktest.Key(t)
		a, b, c := New(rdb, key, ttl), New(s.Client, key, ttl), New(s.Client, key, ttl)

		mustLock(t, as(t, "a"), a)
		sent := hook.Count(locktest.Any)
		pause := locktest.NewPause()
		park, want := pause.Before, ErrNotHeld
		if executed {
			park, want = pause.After, nil
		}
		hook.On(locktest.Script(unlockSource), 1, park)
		unlocked := make(chan error, 1)
		go func() { unlocked <- a.Unlock(as(t, "a")) }()
		<-pause.Parked()
		if !executed {
			s.FastForward(ttl)
		}
		mustLock(t, as(t, "b"), b)
		pause.Release()
		if err := <-unlocked; !errors.Is(err, want) {
			t.Errorf("Unlock = %v; want %v", err, want)
		}
		if n := sent.Hits(); n != 1 {
			t.Errorf("Unlock sent %d commands; want 1", n)
		}
		mustNotLock(t, as(t, "c"), c)
		unlock(t, as(t, "b"), b)
	}
}

func TestReentrant(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		a, b := New(rdb, key, ttl), New(rdb, key, ttl)

		for range 3 {
			mustLock(t, as(t, "a"), a)
		}
		for range 2 {
			unlock(t, as(t, "a"), a)
			mustNotLock(t, as(t, "b"), b)
		}
		unlock(t, as(t, "a"), a)
		mustNotBeHeld(t, as(t, "a"), a)
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestReentrantAcrossMutexes(t *testing.T) {
	backendtest.EachRedis(t, func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		outer, inner, other := New(rdb, key, ttl), New(rdb, key, ttl), New(rdb, key, ttl)

		mustLock(t, as(t, "a"), outer)
		mustLock(t, as(t, "a"), inner)
		mustNotBeHeld(t, as(t, "b"), other)
		mustNotBeHeld(t, as(t, "b"), outer) // the owner counts, not the Mutex
		unlock(t, as(t, "a"), outer)
		mustNotLock(t, as(t, "b"), other)
		unlock(t, as(t, "a"), inner)
		mustLock(t, as(t, "b"), other)
		unlock(t, as(t, "b"), other)
	})
}

func TestInnerTTLShortensNothing(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	outer, inner, other := New(s.Client, key, ttl), New(s.Client, key, ttl/10), New(s.Client, key, ttl)

	mustLock(t, as(t, "a"), outer)
	mustLock(t, as(t, "a"), inner)
	unlock(t, as(t, "a"), inner)
	s.FastForward(ttl / 2)
	mustNotLock(t, as(t, "b"), other)
	unlock(t, as(t, "a"), outer)
}

func TestNoOwner(t *testing.T) {
	s := locktest.Start(t)
	m := New(s.Client, locktest.Key(t), ttl)
	sent := s.Hook.Count(locktest.Any)

	for _, ctx := range []context.Context{t.Context(), as(t, "")} {
		if ok, err := m.TryLock(ctx); ok || !errors.Is(err, errNoOwner) {
			t.Errorf("TryLock = %v, %v; want false, %v", ok, err, errNoOwner)
		}
		if err := m.Unlock(ctx); !errors.Is(err, errNoOwner) {
			t.Errorf("Unlock = %v; want %v", err, errNoOwner)
		}
	}
	if n := sent.Hits(); n != 0 {
		t.Errorf("%d commands sent; want none", n)
	}
}

// A flaw: Redis counted the call whose reply was lost.
func TestLostReplyCountsTwice(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b := New(s.Client, key, ttl), New(s.Client, key, ttl)

	s.Hook.On(locktest.Script(lockSource), 1, locktest.LoseReply(locktest.ErrCut))
	if ok, err := a.TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
	}
	mustLock(t, as(t, "a"), a)
	unlock(t, as(t, "a"), a)
	mustNotLock(t, as(t, "b"), b)
	s.FastForward(ttl)
	mustLock(t, as(t, "b"), b)
	unlock(t, as(t, "b"), b)
}

// A flaw: the re-entry failed before it was counted, but the Unlock that undoes
// it is counted.
func TestFailedReentryFreesOuter(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	outer, inner, other := New(s.Client, key, ttl), New(s.Client, key, ttl), New(s.Client, key, ttl)

	mustLock(t, as(t, "a"), outer)
	s.Hook.On(locktest.Script(lockSource), 1, locktest.Fail(locktest.ErrCut))
	if ok, err := inner.TryLock(as(t, "a")); ok || !errors.Is(err, locktest.ErrCut) {
		t.Errorf("TryLock = %v, %v; want false, %v", ok, err, locktest.ErrCut)
	}
	unlock(t, as(t, "a"), inner)
	mustLock(t, as(t, "b"), other) // a is still working
	mustNotBeHeld(t, as(t, "a"), outer)
	unlock(t, as(t, "b"), other)
}

// die ends a's renewal, as the death of its process does, and keeps the lock.
func die(t *testing.T, ctx context.Context, m *Mutex) {
	t.Helper()
	owner, err := ownerFrom(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if leave(hold{m.rdb, m.key, owner}) == nil {
		t.Fatal("there was no renewal, or not the last hold of it")
	}
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
