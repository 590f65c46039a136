package lock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks/locktest"
)

// After Unlock nothing is renewed, and no renewal is in flight.
func TestUnlockEndsRenewal(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		a := New(rdb[0], locktest.Key(t), ttl)
		mustLock(t, as(t, "a"), a)
		unlock(t, as(t, "a"), a)
		sent := hooks[0].Count(locktest.Any)
		time.Sleep(3 * ttl)
		if sent.Hits() > 0 {
			t.Errorf("%d commands after the Unlock, want none", sent.Hits())
		}

		mustLock(t, as(t, "a"), a)
		pause := locktest.NewPause()
		hooks[0].On(locktest.Script(renewSource), 1, pause.Before)
		<-pause.Parked()
		const late = ttl / 10
		time.AfterFunc(late, pause.Release)
		start := time.Now()
		unlock(t, as(t, "a"), a)
		if took := time.Since(start); took != late {
			t.Errorf("Unlock took %v, want %v: a renewal was in flight for that long", took, late)
		}
	})
}

// If only the replies to renewals are lost, Redis keeps the lock for longer than the
// holder can know. Its Unlock still frees the lock.
func TestLostHoldIsGivenBack(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		hooks[0].On(locktest.Script(renewSource), -1, locktest.LoseReply(locktest.ErrCut))
		<-a.Context(t.Context()).Done()
		mustNotLock(t, as(t, "b"), b)
		mustNotBeHeld(t, as(t, "a"), a)
		synctest.Wait()
		mustLock(t, as(t, "b"), b)
		unlock(t, as(t, "b"), b)
	})
}

// A holder that was paused, and does not know yet that it has lost the lock, leaves
// the next holder's lock alone.
func TestLateUnlockSparesForeignLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b, c := New(rdb[0], key, ttl), New(rdb[1], key, ttl), New(rdb[2], key, ttl)
		mustLock(t, as(t, "a"), a)
		s.FastForward(ttl) // a is paused
		mustLock(t, as(t, "b"), b)
		mustNotBeHeld(t, as(t, "a"), a)
		mustNotLock(t, as(t, "c"), c)
		unlock(t, as(t, "b"), b)
	})
}

// mustBeFree fails the test unless the lock is free and its queue empty.
func mustBeFree(t *testing.T, s *locktest.Server, key, when string) {
	t.Helper()
	synctest.Wait()
	if queue, _ := s.List(key + ":queue"); s.Exists(key) || len(queue) > 0 {
		t.Errorf("%s: the lock is held: %v; the queue has %v", when, s.Exists(key), queue)
	}
}

// A waiter that leaves while one of its commands is in flight leaves nothing behind,
// whether that command or leave.lua reaches Redis first.
func TestCancelOnTheWayLeavesNothing(t *testing.T) {
	for _, script := range []string{lockSource, unlockSource} {
		for name, where := range map[string]parking{"before": beforeIt, "after": afterIt} {
			bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
				key := locktest.Key(t)
				a, b := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
				pause := locktest.NewPause()
				ctx, leave := context.WithCancel(as(t, "b"))
				gone := make(chan error, 1)
				wait := func() { go func() { gone <- b.Lock(ctx) }(); synctest.Wait() }
				if script == lockSource {
					b = New(rdb[1], key, ttl)
					mustLock(t, as(t, "a"), a)
					hooks[1].On(locktest.Script(script), 1, where(pause))
					wait()
				} else {
					mustLock(t, as(t, "a"), a)
					wait()
					time.Sleep(2 * ttl) // long enough for the lock not to be handed on in the process
					hooks[0].On(locktest.Script(script), 1, where(pause))
				}
				given := make(chan error, 1)
				if script == unlockSource {
					go func() { given <- a.Unlock(as(t, "a")) }()
				}
				<-pause.Parked()
				leave()
				<-gone
				synctest.Wait()
				pause.Release()
				if script == lockSource {
					time.Sleep(ttl/3 + time.Millisecond)
					given <- a.Unlock(as(t, "a"))
				}
				if err := <-given; err != nil {
					t.Errorf("Unlock = %v", err)
				}
				mustBeFree(t, s, key, "left with a command parked "+name+" Redis")
			})
		}
	}
}

type parking func(*locktest.Pause) locktest.Action

func beforeIt(p *locktest.Pause) locktest.Action { return p.Before }
func afterIt(p *locktest.Pause) locktest.Action  { return p.After }

// A waiter sends a heartbeat within each ttl, however short, and is in the queue only
// once.
func TestWaiterIsAlive(t *testing.T) {
	const ttl = 300 * time.Millisecond
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		served := waitFor(t, b, "b")
		for range 100 {
			time.Sleep(ttl / 10)
			if queue, _ := s.List(key + ":queue"); len(queue) != 1 {
				t.Fatalf("the queue has %v, want b once", queue)
			}
		}
		unlock(t, as(t, "a"), a)
		mustBeServed(t, served, "b")
		unlock(t, as(t, "b"), b)
	})
}

// Waiters that have died in the queue are skipped, and leave nothing behind.
func TestDeadAreNotServed(t *testing.T) {
	bubble(t, 2, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[1], key, ttl)
		mustLock(t, as(t, "a"), a)
		for range 3 {
			if _, err := (&cohort{location: a.at}).request(t.Context(), newTicket(), ttl, 1); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(ttl / 6)
		served := waitFor(t, b, "b") // behind waiters that still count as alive
		time.Sleep(ttl - ttl/10)     // and no longer do; b has not asked since
		unlock(t, as(t, "a"), a)
		mustBeServed(t, served, "b")
		unlock(t, as(t, "b"), b)
	})
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		a := New(rdb[0], locktest.Key(t), ttl)
		mustLock(t, as(t, "a"), a)
		if _, err := (&cohort{location: a.at}).request(t.Context(), newTicket(), ttl, 1); err != nil {
			t.Fatal(err)
		}
		die(a) // and the bubble checks what is left
	})
}

// A newcomer does not overtake the first waiter, even if it asks first after the
// holder's lease has expired.
func TestNewcomerDoesNotOvertake(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b, c := New(rdb[0], key, ttl), New(rdb[1], key, ttl), New(rdb[2], key, ttl)
		mustLock(t, as(t, "a"), a)
		die(a)
		time.Sleep(ttl / 6)
		served := waitFor(t, b, "b")
		time.Sleep(ttl - ttl/6 + time.Millisecond)
		mustNotLock(t, as(t, "c"), c)
		time.Sleep(ttl / 3)
		mustBeServed(t, served, "b")
		unlock(t, as(t, "b"), b)
	})
}

// A lock that stays with the process because nobody else waits is renewed and
// released like any other.
func TestKeptLockIsGivenBack(t *testing.T) {
	bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a, b := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		served := waitFor(t, b, "b")
		time.Sleep(2 * ttl) // long enough for the lock not to be handed on in the process
		unlock(t, as(t, "a"), a)
		mustBeServed(t, served, "b")
		time.Sleep(2 * ttl)
		unlock(t, as(t, "b"), b)
		mustBeFree(t, s, key, "kept by its process")
	})
}

// When a process has used up its turns, its waiters queue up behind the others.
func TestProcessQueuesUpAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, _ []*locktest.Hook) {
		key := locktest.Key(t)
		a := New(rdb[0], key, ttl)
		mustLock(t, as(t, "a"), a)
		var o order
		o.wait(t, rdb[0], key, "own", "own")
		o.wait(t, rdb[1], key, "first", "first")
		time.Sleep(2 * ttl) // long enough for the lock not to be handed on in the process
		pause := New(rdb[1], key, ttl)
		served := waitFor(t, pause, "pause")
		go unlock(t, as(t, "a"), a)
		mustBeServed(t, served, "pause")
		o.wait(t, rdb[2], key, "later", "later")
		unlock(t, as(t, "pause"), pause)
		o.all.Wait()
		if want := []string{"first", "own", "later"}; !slices.Equal(o.who, want) {
			t.Errorf("served %v, want %v", o.who, want)
		}
	})
}
