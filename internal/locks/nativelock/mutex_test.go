package nativelock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/imitation"
	"oversell/internal/locks/locktest"
)

const ttl = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestExclusive(t *testing.T) {
	backendtest.EachRedisWith(t, "DELEX|DELIFEQ", func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		var witness locktest.Witness
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				who := fmt.Sprint("holder ", i)
				m := newLock(t, rdb, key, ttl)
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
	backendtest.EachRedisWith(t, "DELEX|DELIFEQ", func(t *testing.T, rdb redis.UniversalClient) {
		key := locktest.Key(t)
		a, b := newLock(t, rdb, key, ttl), newLock(t, rdb, key, ttl)

		ctx, cancel := context.WithCancel(as(t, "a"))
		mustLock(t, ctx, a)
		cancel()
		unlock(t, ctx, a)
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

func TestUnlockNotHeld(t *testing.T) {
	backendtest.EachRedisWith(t, "DELEX|DELIFEQ", func(t *testing.T, rdb redis.UniversalClient) {
		m := newLock(t, rdb, locktest.Key(t), ttl)
		mustNotBeHeld(t, as(t, "a"), m)
		mustLock(t, as(t, "a"), m)
		unlock(t, as(t, "a"), m)
		mustNotBeHeld(t, as(t, "a"), m)
	})
}

func TestErrorIsNotFalse(t *testing.T) {
	s := locktest.Start(t)
	m := newLock(t, s.Client, locktest.Key(t), ttl)

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
	a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

	mustLock(t, as(t, "a"), a)
	die(a)
	s.FastForward(ttl - time.Millisecond)
	mustNotLock(t, as(t, "b"), b)
	s.FastForward(time.Millisecond)
	mustLock(t, as(t, "b"), b)
	unlock(t, as(t, "b"), b)
}

// The same test by the server's own clock.
func TestDeadHolderExpiresInTime(t *testing.T) {
	backendtest.EachRedisWith(t, "DELEX|DELIFEQ", func(t *testing.T, rdb redis.UniversalClient) {
		const ttl = 100 * time.Millisecond
		key := locktest.Key(t)
		a, b := newLock(t, rdb, key, ttl), newLock(t, rdb, key, ttl)

		start := time.Now()
		mustLock(t, as(t, "a"), a)
		die(a)
		for !tryLock(t, as(t, "b"), b) {
			if time.Since(start) > 50*ttl {
				t.Fatal("the lock does not expire")
			}
			time.Sleep(ttl / 20)
		}
		if waited := time.Since(start); waited < ttl/2 {
			t.Errorf("the lock expired after %v; ttl is %v", waited, ttl)
		}
	})
}

func TestLateUnlockSparesForeignLock(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b, c := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

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
	a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

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
		a, b, c := newLock(t, rdb, key, ttl), newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

		mustLock(t, as(t, "a"), a)
		sent := hook.Count(locktest.Any)
		pause := locktest.NewPause()
		park, want := pause.Before, ErrNotHeld
		if executed {
			park, want = pause.After, nil
		}
		hook.On(locktest.Command("delex"), 1, park)
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

// A flaw: a holder that locks again waits for itself in vain.
func TestNotReentrant(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	outer, inner := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

	mustLock(t, as(t, "a"), outer)
	mustNotLock(t, as(t, "a"), outer)
	mustNotLock(t, as(t, "a"), inner)
	unlock(t, as(t, "a"), outer)
}

// A flaw: whoever asks again after a lost reply is told that it held nothing.
func TestLostReleaseLooksNotHeld(t *testing.T) {
	s := locktest.Start(t)
	key := locktest.Key(t)
	a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)

	mustLock(t, as(t, "a"), a)
	s.Hook.On(locktest.Command("delex"), 1, locktest.LoseReply(locktest.ErrCut))
	if err := a.Unlock(as(t, "a")); !errors.Is(err, locktest.ErrCut) {
		t.Errorf("Unlock = %v; want %v", err, locktest.ErrCut)
	}
	mustNotBeHeld(t, as(t, "a"), a)
	mustLock(t, as(t, "b"), b)
	unlock(t, as(t, "b"), b)
}

// On a server without DELEX the lock is released by DELIFEQ, and only its own.
func TestReleaseByDELIFEQ(t *testing.T) {
	s := locktest.Start(t)
	imitation.Install(s.Miniredis, imitation.Valkey90)
	key := locktest.Key(t)
	a, b := newLock(t, s.Client, key, ttl), newLock(t, s.Client, key, ttl)
	if a.release != DELIFEQ {
		t.Fatalf("the server has %s, want %s", a.release, DELIFEQ)
	}
	mustLock(t, as(t, "a"), a)
	s.FastForward(ttl)
	mustLock(t, as(t, "b"), b)
	mustNotBeHeld(t, as(t, "a"), a)
	mustNotLock(t, as(t, "a"), a)
	unlock(t, as(t, "b"), b)
	if s.Exists(key) {
		t.Error("the lock is left behind")
	}
}

// No script is sent: the lock is for servers that refuse them.
func TestSendsNoScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := locktest.StartTicking(t)
		scripts := s.Hook.Count(locktest.Command("eval", "evalsha"))
		m := newLock(t, s.Client, locktest.Key(t), ttl)
		mustLock(t, as(t, "a"), m)
		time.Sleep(ttl)
		if m.Renewals() == 0 {
			t.Error("never renewed")
		}
		unlock(t, as(t, "a"), m)
		if n := scripts.Hits(); n != 0 {
			t.Errorf("%d scripts were sent", n)
		}
	})
}

// newLock returns a handle that releases by a command that the server has.
func newLock(t *testing.T, rdb redis.UniversalClient, key string, ttl time.Duration) *Mutex {
	t.Helper()
	has, err := backend.HasCommands(t.Context(), rdb, string(DELEX), string(DELIFEQ))
	if err != nil {
		t.Fatal(err)
	}
	release := DELEX
	if !has[string(DELEX)] {
		release = DELIFEQ
	}
	return New(rdb, key, ttl, release)
}

// die ends what m's process does for its hold, as its end would.
func die(m *Mutex) { m.end() }

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
