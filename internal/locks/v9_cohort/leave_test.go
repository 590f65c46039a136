package lock

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/locks/locktest"
)

// If only the replies to renewals are lost, Redis keeps the lock for longer than the
// holder can know. Its Unlock still frees the lock.
func TestLostHoldIsGivenBack(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, b := w.Holder("a"), w.Holder("b")
		a.MustLock()
		a.Hook.On(locktest.Script(renewSource), -1, locktest.LoseReply(locktest.ErrCut))
		<-a.Context().Done()
		b.MustNotLock()
		a.MustNotHold()
		synctest.Wait()
		b.MustLock()
		b.MustUnlock()
	})
}

// mustBeFree ends the scenario unless the lock is free and its queue empty.
func mustBeFree(w *locktest.World, when string) {
	synctest.Wait()
	queue, _ := w.List(w.Key + ":queue")
	w.Expect(!w.Exists(w.Key) && len(queue) == 0, "%s: the lock is held: %v; the queue has %v", when, w.Exists(w.Key),
		queue)
}

// All waiters of a process leave while its Unlock is in flight, which queues the process up
// again. They leave nothing behind, whether that or leave.lua reaches Redis first.
func TestCancelDuringUnlockLeavesNothing(t *testing.T) {
	for name, where := range map[string]func(*locktest.Pause) locktest.Action{
		"before": func(p *locktest.Pause) locktest.Action { return p.Before },
		"after":  func(p *locktest.Pause) locktest.Action { return p.After },
	} {
		locktest.Scenario(t, stage(), func(w *locktest.World) {
			a := w.Holder("a")
			b := a.Sibling("b")
			a.MustLock()
			ctx, leave := context.WithCancel(b.Ctx)
			gone, given := begin(ctx, b), make(chan error, 1)
			time.Sleep(long)
			pause := locktest.NewPause()
			a.Hook.On(locktest.Script(unlockSource), 1, where(pause))
			go func() { given <- a.Mutex.Unlock(a.Ctx) }()
			<-pause.Parked()
			leave()
			<-gone
			synctest.Wait()
			pause.Release()
			err := <-given
			w.Expect(err == nil, "Unlock = %v", err)
			mustBeFree(w, "left with Unlock parked "+name+" Redis")
		})
	}
}

// A lock that stays with the process because nobody else waits is renewed and
// released like any other.
func TestKeptLockIsGivenBack(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a := w.Holder("a")
		b := a.Sibling("b")
		a.MustLock()
		served := begin(b.Ctx, b)
		time.Sleep(long)
		a.MustUnlock()
		mustBeServed(w, served, "b")
		time.Sleep(2 * ttl)
		b.MustUnlock()
		mustBeFree(w, "kept by its process")
	})
}

// When a process has used up its turns, its waiters queue up behind the others.
func TestProcessQueuesUpAgain(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, first, later := w.Holder("a"), w.Holder("first"), w.Holder("later")
		a.MustLock()
		var o order
		o.wait(a.Sibling("own"), "own")
		o.wait(first, "first")
		time.Sleep(long)
		pause := first.Sibling("pause")
		served := begin(pause.Ctx, pause)
		a.MustUnlock()
		mustBeServed(w, served, "pause")
		o.wait(later, "later")
		pause.MustUnlock()
		got := o.served(w)
		want := []string{"first", "own", "later"}
		w.Expect(slices.Equal(got, want), "served %v, want %v", got, want)
	})
}
