package anomalies

import (
	"sync/atomic"

	"oversell/internal/lab"
)

var orphan = lab.Try("orphan-after-crash", needsLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B")
	a.Holder().MustLock()
	a.Kill()
	return freeAgain(w, b, "A")
}, had("A", "B"), faulted("A"), unlessInMemory(refused("B")))

// freeAgain returns Holds if b gets the lock sooner or later, after the process that held it died.
func freeAgain(w *lab.World, b *lab.Process, dead string) lab.Verdict {
	if b.Holder().Obtain(3 * w.TTL) {
		return lab.Holds.Because("%s gets the lock in the end", b.Name)
	}
	return w.Broke(b.Name, "%s does not get the lock within three times the ttl: %s took it, and its process is dead",
		b.Name, dead)
}

var setnxThenExpire = lab.Try("crash-before-expire", needsRedisLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B")
	first := lab.NewPause()
	a.Inject(lab.AnyCommand, 1, "", first.After)
	asking := w.Go(func() { _, _ = a.Holder().Ask() })
	w.Must(first.Parked, "A's first command")
	a.Kill()
	w.Must(asking, "the end of A")
	return freeAgain(w, b, "A")
}, faulted("A"), had("B"))

var handedOnHolderDies = lab.Try("handed-on-holder-dies", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b, c := w.Start("A").Holder(), w.Start("B"), w.Start("C")
	a.MustLock()
	var served atomic.Int32
	turn := func(h *lab.Holder) func() {
		return func() {
			if !h.Wait(4 * w.TTL) {
				return
			}
			if served.Add(1) == 1 {
				_ = h.Unlock()
				return
			}
			b.Kill()
		}
	}
	first := w.Go(turn(b.Caller(1)))
	w.Sleep(w.TTL / 20)
	second := w.Go(turn(b.Caller(2)))
	w.Sleep(w.TTL / 20)
	_ = a.Unlock()
	w.Together(first, second)
	lab.Need(served.Load() == 2, "B/1 and B/2 did not both get the lock")
	return freeAgain(w, c, "B")
}, had("A", "B/1", "B/2", "C"), faulted("B"), refused("C"), lab.IsLock)

var forgottenUnlock = lab.Try("forgotten-unlock", needsLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	b := a.Another("B") // in A's instance, because a local lock excludes nobody outside it
	h := a.Holding()
	h.Done()
	ok := b.Holder().Obtain(3 * w.TTL)
	return w.Verdict(ok, "B", "B gets the lock in the end",
		"B does not get the lock within three times the ttl: A took it, and never unlocks it")
}, had("A", "B"), refused("B"))

var expiresWhileHeld = lab.Try("expires-while-held", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A").Holder(), w.Start("B").Holder()
	a.MustLock()
	asking := w.Go(func() {
		w.Sleep(w.TTL / 7)
		if b.Obtain(2 * w.TTL) {
			w.Sleep(w.TTL / 10)
			_ = b.Unlock()
		}
	})
	w.Sleep(2*w.TTL + w.TTL/2)
	_ = a.Unlock()
	w.Must(asking, "the end of B")
	return w.Exclusive()
}, had("A"), refused("B"))

var longWork = lab.Try("long-work", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A").Holding()
	w.Sleep(5*w.TTL + w.TTL/7)
	there := w.LockHeld()
	_ = a.Unlock()
	return w.Verdict(there, "A", "after five times the ttl the lock is still there",
		"after five times the ttl the lock is gone, and A is still working")
}, had("A"))

var lateReply = lab.Try("late-reply", needsRedisLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	late := lab.NewPause()
	a.Inject(lab.AnyCommand, 1, "its reply is delayed", late.After)
	asking := w.Go(func() { _, _ = a.Holder().Ask() })
	w.Must(late.Parked, "the reply")
	w.Sleep(w.TTL + w.TTL/3)
	_ = b.Try()
	w.Sleep(w.TTL / 6)
	late.Release()
	w.Must(asking, "A's answer")
	w.Settle()
	w.Settle()
	return w.Exclusive()
}, answered("B"))

var stoppedHolder = lab.Try("stopped-holder", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	holder := a.Holding()
	w.Sleep(w.TTL / 10)
	a.Freeze()
	w.Sleep(w.TTL + w.TTL/3)
	second := b.Obtain(w.TTL)
	w.Sleep(w.TTL / 6)
	a.Thaw()
	w.Sleep(w.TTL / 2)
	holder.Done()
	if second {
		b.Done()
	}
	return handedOver(w, "A", "B")
}, had("A"), faulted("A"), answered("B"))
