package anomalies

import (
	"oversell/internal/fault"
	"oversell/internal/lab"
)

const notRenewed = "nothing renews it"

// outlivesTTL lets one and a half times the ttl pass, and reports whether the lock is still held.
// The holder must be alive.
func outlivesTTL(w *lab.World) bool {
	w.Sleep(w.TTL + w.TTL/2)
	return w.LeaseLeft() > 0
}

var renewalAfterUnlock = lab.Try("renewal-after-unlock", needsRedisLock, func(w *lab.World) lab.Verdict {
	a, b := w.Start("A"), w.Start("B").Holder()
	h := a.Holding()
	if !outlivesTTL(w) {
		return lab.NA.Because(notRenewed)
	}
	parked := a.Park(fault.Command.Script)
	w.Must(parked.Parked, "a renewal")
	unlocking := w.Go(func() { _ = h.Unlock() })
	w.Settle()
	parked.Release()
	w.Must(unlocking, "the end of A's unlock")
	lab.Need(b.Obtain(w.TTL/2), "B did not get the lock")
	_ = b.Unlock()
	before := a.Asked()
	w.Sleep(3 * w.TTL)
	sent := a.Asked() - before
	if sent > 0 || w.LockHeld() {
		return w.Broke("A", "in three times the ttl after its unlock A has sent %d commands", sent)
	}
	return lab.Holds.Because("after its unlock A sends nothing, and the lock is free")
}, had("A", "B"))

// renewalsPerTTL is the acceptable number of renewals per ttl. Most locks send three.
const renewalsPerTTL = 4

var secondRenewer = lab.Try("second-renewer", needsRedisLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	h := a.Holding()
	if !outlivesTTL(w) {
		return lab.NA.Because(notRenewed)
	}
	for range 3 {
		if !h.Try() {
			return lab.NA.Because("it cannot be taken twice: see nested-acquire")
		}
	}
	const length = 4
	before := a.Asked()
	w.Sleep(length * w.TTL)
	renewals := a.Asked() - before
	for range 4 {
		_ = h.Unlock()
	}
	before = a.Asked()
	w.Sleep(2 * w.TTL)
	lab.Need(renewals > 0, "A sent no renewal")
	if renewals > length*renewalsPerTTL || a.Asked() > before {
		return w.Broke("A", "%d renewals in %d times the ttl, and %d after the last unlock", renewals, length,
			a.Asked()-before)
	}
	return lab.Holds.Because("%d renewals in %d times the ttl, none after the last unlock", renewals, length)
}, had("A"), lab.IsLock)

var renewalError = lab.Try("renewal-ends-with-an-error", needsRemoteLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	h := a.Holding()
	told := h.Told()
	if !outlivesTTL(w) {
		return lab.NA.Because(notRenewed)
	}
	if busy := fault.ErrorReply("BUSY Redis is busy running a script."); !w.Subject.InService() {
		a.Inject(fault.Command.Script, 1, "answered with an error", lab.Answer(busy))
	} else {
		a.LoseReply(nil)
	}
	lost := w.Await(told, 2*w.TTL+w.TTL/2)
	held := w.LockHeld()
	switch {
	case lost:
		return w.Broke("A", "A loses the lock because of one error, and is told")
	case !held:
		return w.Broke("A", "A loses the lock because of one error, and is not told")
	}
	return lab.Holds.Because("the next renewal keeps the lock")
}, had("A"))

var lossNotTold = lab.Try("loss-not-told", needsRemoteLock, func(w *lab.World) lab.Verdict {
	h := w.Start("A").Holding()
	told := h.Told()
	w.Sleep(w.TTL / 10)
	w.LoseLock(w.Servers(), "an operator deletes the lock")
	ok := w.Await(told, w.TTL)
	return w.Verdict(ok, "A", "A is told within the ttl", "after a whole ttl A has not been told, and is still "+
		"working")
}, had("A"))
