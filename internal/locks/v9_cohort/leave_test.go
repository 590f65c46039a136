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

// mustBeFree fails the test unless the lock is free and its queue empty.
func mustBeFree(t *testing.T, s *locktest.Server, key, when string) {
	t.Helper()
	synctest.Wait()
	if queue, _ := s.List(key + ":queue"); s.Exists(key) || len(queue) > 0 {
		t.Errorf("%s: the lock is held: %v; the queue has %v", when, s.Exists(key), queue)
	}
}

// All waiters of a process leave while its Unlock is in flight, which queues the process up
// again. They leave nothing behind, whether that or leave.lua reaches Redis first.
func TestCancelDuringUnlockLeavesNothing(t *testing.T) {
	for name, where := range map[string]func(*locktest.Pause) locktest.Action{
		"before": func(p *locktest.Pause) locktest.Action { return p.Before },
		"after":  func(p *locktest.Pause) locktest.Action { return p.After },
	} {
		bubble(t, 1, func(t *testing.T, s *locktest.Server, rdb []redis.UniversalClient, hooks []*locktest.Hook) {
			key := locktest.Key(t)
			a, b := New(rdb[0], key, ttl), New(rdb[0], key, ttl)
			mustLock(t, as(t, "a"), a)
			ctx, leave := context.WithCancel(as(t, "b"))
			gone, given := make(chan error, 1), make(chan error, 1)
			go func() { gone <- b.Lock(ctx) }()
			time.Sleep(2 * ttl) // long enough for the lock not to be handed on in the process
			pause := locktest.NewPause()
			hooks[0].On(locktest.Script(unlockSource), 1, where(pause))
			go func() { given <- a.Unlock(as(t, "a")) }()
			<-pause.Parked()
			leave()
			<-gone
			synctest.Wait()
			pause.Release()
			if err := <-given; err != nil {
				t.Errorf("Unlock = %v", err)
			}
			mustBeFree(t, s, key, "left with Unlock parked "+name+" Redis")
		})
	}
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
