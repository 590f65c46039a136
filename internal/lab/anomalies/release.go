package anomalies

import (
	"context"

	"oversell/internal/lab"
)

var foreignDelete = lab.Try("foreign-delete", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
	late := a.Holding()
	w.Sleep(w.TTL / 10)
	late.Done()
	a.Freeze()
	w.Sleep(w.TTL + w.TTL/3)
	second := b.TryExpired()
	a.Thaw()
	_ = late.Unlock()
	w.Settle()
	_ = c.Try()
	v := w.Exclusive()
	if v.Outcome == lab.Holds && !second {
		return lab.Holds.Because("the lock does not expire, and B is kept out until A unlocks")
	}
	return v
}, had("A"), faulted("A"), answered("B", "C"), lab.IsLock)

var foreignChain = lab.Try("foreign-delete-chain", needsRemoteLock, func(w *lab.World) lab.Verdict {
	var processes []*lab.Process
	var holders []*lab.Holder
	for i := range 4 {
		p := w.Start(string(rune('A' + i)))
		processes, holders = append(processes, p), append(holders, p.Holder())
	}
	holders[0].MustLock()
	holders[0].Done()
	processes[0].Freeze()
	w.Sleep(w.TTL + w.TTL/3)
	foreign := 0
	second := holders[1].TryExpired()
	for i := 1; second && i < len(holders)-1; i++ {
		processes[i-1].Thaw()
		_ = holders[i-1].Unlock()
		w.Settle()
		if holders[i+1].Try() {
			foreign++
		}
		holders[i].Done()
		processes[i].Freeze()
		if foreign < i {
			break // the lock was not removed, so the chain ends
		}
	}
	for _, p := range processes {
		p.Thaw()
	}
	v := w.Exclusive()
	if v.Outcome == lab.Breaks {
		return lab.Breaks.Because("%d locks in a row were removed by the previous holder: %s", foreign, v.Note)
	}
	return v
}, had("A"), faulted("A"), answered("B"), lab.IsLock)

var checkThenDelete = lab.Try("check-then-delete", needsRedisLock, func(w *lab.World) lab.Verdict {
	a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
	first := a.Holding()
	deletion := a.Park(release)
	unlocking := w.Go(func() { _ = first.Unlock() })
	w.Must(deletion.Parked, "the command that deletes")
	w.Sleep(w.TTL + w.TTL/3)
	second := b.Try()
	deletion.Release()
	w.Must(unlocking, "the end of A's unlock")
	w.Settle()
	if second {
		_ = c.Try()
	}
	return w.Exclusive()
}, had("A"), answered("B"), lab.IsLock)

var foreignUnlock = lab.Try("foreign-unlock", needsUnlock, func(w *lab.World) lab.Verdict {
	a, b, c := w.Start("A").Holder(), w.Start("B").Holder(), w.Start("C").Holder()
	a.MustLock()
	err := b.Unlock()
	_ = c.Try()
	v := w.Exclusive()
	if v.Outcome == lab.Holds {
		return w.Verdict(err != nil, "B", "the unlock is refused, and B is told",
			"the unlock is refused, but B is not told")
	}
	return v
}, had("A"), refused("C"), lab.IsLock)

var lateUnlock = lab.Try("late-unlock-not-told", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	late := a.Holding()
	told := late.Told()
	a.Freeze()
	w.Sleep(w.TTL + w.TTL/3)
	if !b.TryExpired() {
		a.Thaw()
		return lab.Holds.Because("the lock does not expire: nobody is late")
	}
	a.Thaw()
	w.Settle()
	warned := w.Await(told, w.TTL/2)
	err := late.Unlock()
	switch {
	case warned:
		return lab.Holds.Because("A was told of the loss before it unlocked")
	case late.SaysNotHeld(err):
		return lab.Holds.Because("A is told: %s", lab.Brief(err))
	case err != nil:
		return w.Broke("A", "A is told, but not that the lock was lost: %s", lab.Brief(err))
	}
	return w.Broke("A", "unlock succeeds, though the lock was B's")
}, had("A"), faulted("A"), answered("B"), lab.IsLock)

var lostHoldHandedOn = lab.Try("lost-hold-handed-on", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	late, next := a.Caller(1), a.Caller(2)
	late.MustLock()
	var served bool
	waiting := w.Go(func() {
		if served = next.Wait(3 * w.TTL); served {
			w.Sleep(w.TTL / 10)
			_ = next.Unlock()
		}
	})
	w.Sleep(w.TTL / 10)
	late.Done()
	w.LoseLock(w.Servers(), "an operator deletes the lock")
	lab.Need(b.Obtain(w.TTL/5), "B did not get the lock")
	w.Sleep(w.TTL / 2)
	_ = late.Unlock()
	w.Sleep(w.TTL / 5)
	_ = b.Unlock()
	w.Must(waiting, "the end of A/2")
	switch v := w.Exclusive(); {
	case v.Outcome != lab.Holds:
		return v
	case next.Misled():
		return w.Broke("A/2", "A/2 is let in on a hold that is already lost")
	case !served:
		return w.Broke("A/2", "A/2 keeps waiting, and never gets the lock")
	}
	return lab.Holds.Because("A/2 gets the lock after B has given it back")
}, had("A/1", "B", "A/2"), lab.IsLock)

var unlockAfterFailure = lab.Try("unlock-after-failed-acquire", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
	b.MustLock()
	unsure := a.Holder()
	mend := a.LoseQuestion(false)
	unsure.AskFor(w.TTL / 2)
	mend()
	_ = unsure.Unlock()
	_ = c.Try()
	return w.Exclusive()
}, had("B"), refused("C"), lab.IsLock)

var unlockAfterCancel = lab.Try("unlock-after-cancel", needsLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	b := a.Another("B").Holder()
	h := a.Holding()
	cancelled, cancel := context.WithCancel(h.Context())
	cancel()
	_ = h.UnlockIn(cancelled)
	return soonFree(w, b, stillTaken)
}, had("A", "B"), lab.IsLock)

const stillTaken = "B does not get the lock within half the ttl: it is still taken, but nobody holds it"

// soonFree returns Holds if b gets the lock without waiting for a lease to run out. Bad is the note if
// b does not get it.
func soonFree(w *lab.World, b *lab.Holder, bad string) lab.Verdict {
	return w.Verdict(b.Obtain(w.TTL/2), "B", "B gets the lock soon", bad)
}

var acquireTimesOut = lab.Try("acquire-times-out", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	h := a.Holding() // opens a connection
	_ = h.Unlock()
	under, letGo := a.Delay()
	ctx, cancel := context.WithTimeout(h.Context(), w.TTL/30)
	defer cancel()
	asking := w.Go(func() { _, _ = h.AskIn(ctx) })
	w.Must(under, "the reply")
	w.Await(asking, w.TTL/5)
	letGo()
	w.Must(asking, "A's answer")
	_ = h.Unlock()
	w.Settle()
	return soonFree(w, b, stillTaken)
}, had("B"), lab.IsLock)

var lostReplyUnlock = lab.Try("lost-reply-gives-up", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	a.LoseReply(lab.AnyCommand)
	h := a.Holder()
	_, _ = h.Ask()
	_ = h.Unlock()
	w.Settle()
	return soonFree(w, b, stillTaken)
}, had("B"), lab.IsLock)

var lostReplyRetry = lab.Try("lost-reply-asks-again", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	a.LoseReply(lab.AnyCommand)
	h := a.Holder()
	if ok, _ := h.Ask(); !ok && !h.Obtain(w.TTL/2) {
		return w.Broke("A", "A waits for the lock that it already holds")
	}
	_ = h.Unlock()
	w.Settle()
	return soonFree(w, b, "A has given back what it got, but "+stillTaken)
}, had("A", "B"), lab.IsLock)

var repeatedUnlock = lab.Try("repeated-unlock", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
	h := a.Holding()
	a.LoseReply(release)
	_ = h.Unlock()
	w.Settle()
	lab.Need(b.Obtain(w.TTL/2), "B did not get the lock")
	_ = h.Unlock()
	_ = c.Try()
	return w.Exclusive()
}, had("A", "B"), refused("C"), lab.IsLock)
