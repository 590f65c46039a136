package lock

import (
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/locks/locktest"
)

// If only the replies to renewals are lost, Redis still renews the lock, but the holder regards it as
// lost. The holder's Unlock frees the lock in Redis nevertheless.
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

// An Unlock puts its process into the queue again, but all waiters of the process leave while it is in
// flight. Nothing stays in Redis, whether unlock.lua or leave.lua is executed first.
func TestCancelDuringUnlockLeavesNothing(t *testing.T) {
	for _, where := range []func(*locktest.Pause) locktest.Action{
		func(p *locktest.Pause) locktest.Action { return p.Before },
		func(p *locktest.Pause) locktest.Action { return p.After },
	} {
		locktest.Scenario(t, stage(), func(w *locktest.World) {
			a := w.Holder("a")
			b := a.Sibling("b")
			a.MustLock()
			gone, leave := b.Wait()
			given := make(chan error, 1)
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
			w.MustBeFree()
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
		served, _ := b.Wait()
		time.Sleep(long)
		a.MustUnlock()
		mustBeServed(w, served, "b")
		time.Sleep(2 * ttl)
		b.MustUnlock()
		w.MustBeFree()
	})
}

// When a process has used up its turns, its waiters queue up behind the other processes.
func TestProcessQueuesUpAgain(t *testing.T) {
	locktest.Scenario(t, stage(), func(w *locktest.World) {
		a, first, later := w.Holder("a"), w.Holder("first"), w.Holder("later")
		a.MustLock()
		q := w.Queued()
		q.Add(a.Sibling("own"), 0)
		q.Add(first, 0)
		time.Sleep(long)
		pause := first.Sibling("pause")
		served, _ := pause.Wait()
		a.MustUnlock()
		mustBeServed(w, served, "pause")
		q.Add(later, 0)
		pause.MustUnlock()
		q.MustServeInOrder(0, "first", "own", "later")
	})
}
