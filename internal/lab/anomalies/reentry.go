package anomalies

import "oversell/internal/lab"

var nestedAcquire = lab.Try("nested-acquire", needsLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	outer, inner := a.Holder(), a.Holder()
	outer.MustLock()
	w.Note("A", "calls code that takes the lock again")
	ok := inner.Obtain(w.TTL / 2)
	return w.Verdict(ok, "A", "the inner call has the lock too", "A waits for the lock that it already holds")
}, had("A"), lab.IsLock)

var innerUnlock = lab.Try("inner-unlock-frees-outer", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	h := a.Holding()
	if !h.Try() {
		return lab.NA.Because("it cannot be taken twice: see nested-acquire")
	}
	_ = h.Unlock()
	_ = b.Try()
	v := w.Exclusive()
	if v.Outcome == lab.Holds {
		_ = h.Unlock()
		if !b.Try() {
			return w.Broke("B", "after the last unlock the lock is still taken")
		}
	}
	return v
}, had("A"), refused("B"), lab.IsLock)

var failedReentry = lab.Try("failed-re-entry-frees-outer", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	outer, inner := a.Holder(), a.Holder()
	outer.MustLock()
	mend := a.LoseQuestion(true)
	before := a.Asked()
	inner.AskFor(w.TTL / 2)
	asked := a.Asked() > before
	mend()
	_ = inner.Unlock()
	freed := b.Try()
	w.Settle()
	if v := w.Exclusive(); v.Outcome != lab.Holds {
		return v
	}
	good := "the outer call keeps its lock"
	if !asked {
		good += ": its process knows that it holds the lock, and does not ask Redis"
	}
	return w.Verdict(!freed, "A", good,
		"the outer call is still working, but B has its lock; it was told only that its context has ended")
}, had("A"), refused("B"), lab.IsLock)

var reentryShortens = lab.Try("re-entry-keeps-the-old-lease", needsRemoteLock, func(w *lab.World) lab.Verdict {
	h := w.Start("A").Holding()
	w.Sleep(w.TTL * 4 / 5)
	if !h.Try() {
		return lab.NA.Because("it cannot be taken twice: see nested-acquire")
	}
	w.Sleep(w.TTL / 2)
	return w.Verdict(w.LockHeld(), "A", "the lock is still there", "the lock is gone, and A is still working")
}, had("A"), lab.IsLock)

var sharedToken = lab.Try("token-not-unique", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a, b, c := w.Start("A").HolderAs("1:1"), w.Start("B").HolderAs("1:1"), w.Start("C").Holder()
	a.MustLock()
	_ = b.Try()
	_ = b.Unlock()
	_ = c.Try()
	return w.Exclusive()
}, had("A"), refused("C"), lab.IsLock)
