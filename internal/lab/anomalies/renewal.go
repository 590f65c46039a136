package anomalies

import (
	"oversell/internal/lab"
	"oversell/internal/lab/wire"
)

func renewalScenarios() []lab.Scenario {
	return []lab.Scenario{renewalAfterUnlock, secondRenewer, renewalError, lossNotTold}
}

// notRenewed is why questions about a renewal do not apply.
const notRenewed = "nothing renews it"

// outlivesTTL reports whether the lock outlives its ttl, its holder alive. It lets
// one and a half times the ttl pass.
func outlivesTTL(w *lab.World) bool {
	w.Sleep(w.TTL + w.TTL/2)
	return w.LeaseLeft() > 0
}

var renewalAfterUnlock = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "renewal-after-unlock",
		Loss:     lab.Stuck,
		Sentence: "The lock is given back, but its timer goes on renewing it: a lock that belongs to somebody else, or to nobody.",
		Sequence: "A takes the lock and lets it be renewed. A unlocks while a renewal is on its way. B takes the lock and gives it back. For three times the ttl A must send nothing, and the lock must be free.",
		Source:   "redisson/redisson#7272: the renewal can outlive the unlock",
	},
	Requires:      []lab.Claim{had("A", "B")},
	NotApplicable: needsRedisLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		h := a.Holder()
		h.MustLock()
		if !outlivesTTL(w) {
			return lab.NA.Because(notRenewed)
		}
		parked := a.Park(wire.Command.Script)
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
	},
}

// renewalsPerTTL is more than any lock here needs: three are usual.
const renewalsPerTTL = 4

var secondRenewer = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "second-renewer",
		Loss:     lab.WastedWork,
		Sentence: "Each re-entry starts another timer: the renewals multiply, and the last unlock stops only one of them.",
		Sequence: "A takes the lock four times over and works for four times the ttl. Its renewals are counted. A unlocks four times, and must send nothing more.",
		Source:   "redisson/redisson PR #7251: a renewal was noted for each re-entry, and one of them removed by the unlock; jefferyjob/go-redislock",
	},
	Requires:      []lab.Claim{had("A"), lab.IsLock},
	NotApplicable: needsRedisLock,
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A")
		h := a.Holder()
		h.MustLock()
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
			return w.Broke("A", "%d renewals in %d times the ttl, and %d after the last unlock", renewals, length, a.Asked()-before)
		}
		return lab.Holds.Because("%d renewals in %d times the ttl, none after the last unlock", renewals, length)
	},
}

var renewalError = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "renewal-ends-with-an-error",
		Loss:     lab.WastedWork,
		Sentence: "One renewal fails although most of the lease is left, and the holder loses a lock that the next renewal would have saved.",
		Sequence: "A takes the lock and works for four times the ttl. One renewal in between is answered with BUSY; on servers other than Redis, its connection breaks instead. Does A keep the lock to the end?",
		Source:   "redisson/redisson#3194: the watchdog does not go on after a failed connection",
	},
	Requires:      []lab.Claim{had("A")},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A")
		h := a.Holder()
		h.MustLock()
		told := h.Told()
		if !outlivesTTL(w) {
			return lab.NA.Because(notRenewed)
		}
		if busy := wire.ErrorReply("BUSY Redis is busy running a script."); !w.Subject.InService() {
			a.Inject(wire.Command.Script, 1, "answered with an error", lab.Answer(busy))
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
	},
}

var lossNotTold = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "loss-not-told",
		Loss:     lab.SellsTwice,
		Sentence: "The lock is lost while the holder works, and nothing tells it to stop.",
		Sequence: "A takes the lock and works. An operator deletes the key. Within the ttl A must be told, before it unlocks.",
		Source:   "mike-marcacci/node-redlock#313: how to know that the lock has expired; go-redsync/redsync PR #149: nodes in memory that restart",
	},
	Requires:      []lab.Claim{had("A")},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		h := w.Start("A").Holder()
		h.MustLock()
		told := h.Told()
		w.Sleep(w.TTL / 10)
		w.LoseLock(w.Servers(), "an operator deletes the lock")
		ok := w.Await(told, w.TTL)
		return w.Verdict(ok, "A", "A is told within the ttl", "after a whole ttl A has not been told, and works on")
	},
}
