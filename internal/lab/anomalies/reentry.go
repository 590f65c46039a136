package anomalies

import (
	"context"
	"errors"

	"oversell/internal/lab"
)

func reentryScenarios() []lab.Scenario {
	return []lab.Scenario{nestedAcquire, innerUnlock, failedReentry, reentryShortens, sharedToken}
}

var nestedAcquire = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "nested-acquire",
		Loss:     lab.WaitsForNothing,
		Sentence: "A holder calls code that takes the same lock, and waits for itself.",
		Sequence: "A takes the lock. Deeper in its call stack it asks for the lock again, with another handle and the same owner, for half the ttl.",
		Source:   "code that calls other code under the same lock; the reason for the R in Redisson's RLock",
	},
	Requires:      []lab.Claim{had("A"), lab.IsLock},
	NotApplicable: needsLock,
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A")
		outer, inner := a.Holder(), a.Holder()
		outer.MustLock()
		w.Note("A", "calls code that takes the lock again")
		ok := inner.Obtain(w.TTL / 2)
		return w.Verdict(ok, "A", "the inner call has the lock too", "A waits for the lock that it holds itself")
	},
}

var innerUnlock = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "inner-unlock-frees-outer",
		Loss:     lab.SellsTwice,
		Sentence: "The inner of two nested holds is given back, and the lock is free although the outer hold goes on.",
		Sequence: "A takes the lock twice and gives it back once. B asks while A works on.",
		Source:   "zeromicro/go-zero#1338",
	},
	Requires:      []lab.Claim{had("A"), refused("B"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		h := a.Holder()
		h.MustLock()
		if !h.Try() {
			return lab.NA.Because("it cannot be taken twice: see nested-acquire")
		}
		_ = h.Unlock()
		_ = b.Try()
		v := w.Exclusive()
		if v.Outcome == lab.Holds {
			_ = h.Unlock()
			return w.Verdict(b.Try(), "B", v.Note, "after the last unlock the lock is still taken")
		}
		return v
	},
}

var failedReentry = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "failed-re-entry-frees-outer",
		Loss:     lab.SellsTwice,
		Sentence: "The inner of two nested calls cannot reach Redis and cleans up with an unlock, which releases the outer call's lock.",
		Sequence: "A takes the lock. Deeper in its call stack it asks again, and the connection breaks before Redis sees the command; the inner call unlocks to be safe. B asks while A works on.",
		Source:   "a count that Redis keeps and a clean-up that does not know it: the stages v5 and v6 of this project, TestFailedReentryFreesOuter",
	},
	Requires:      []lab.Claim{had("A"), refused("B"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
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
		return w.Verdict(!freed, "A", good, "the outer call works on, but B has its lock; it was told only that its context has ended")
	},
}

var reentryShortens = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "re-entry-keeps-the-old-lease",
		Loss:     lab.SellsTwice,
		Sentence: "The holder re-enters shortly before its lease ends, and the lease is not renewed: the inner work loses the lock at once.",
		Sequence: "A takes the lock. With a fifth of its lease left, it takes the lock again and works for half a ttl. Is the lock still there?",
		Source:   "an expiry that is set at the outermost acquire alone; compare Redisson's tryLock script, which sets it each time",
	},
	Requires:      []lab.Claim{had("A"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		h := w.Start("A").Holder()
		h.MustLock()
		w.Sleep(w.TTL * 4 / 5)
		if !h.Try() {
			return lab.NA.Because("it cannot be taken twice: see nested-acquire")
		}
		w.Sleep(w.TTL / 2)
		return w.Verdict(w.LockHeld(), "A", "the lock is still there", "the lock is gone, and A still works")
	},
}

var sharedToken = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "token-not-unique",
		Loss:     lab.SellsTwice,
		Sentence: "Two processes use the same name, as process 1 in two containers does: the lock takes one for the other.",
		Sequence: "A and B both call themselves 1:1. A takes the lock. B asks, and unlocks. C asks while A works. Where a lock makes its own tokens, the names do not matter.",
		Source:   "locks that use a process, thread or goroutine id as the token: xiaoxuxiansheng/redis_lock",
	},
	Requires:      []lab.Claim{had("A"), refused("C"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b, c := w.Start("A").HolderAs("1:1"), w.Start("B").HolderAs("1:1"), w.Start("C").Holder()
		a.MustLock()
		_ = b.Try()
		_ = b.Unlock()
		_ = c.Try()
		return w.Exclusive()
	},
}

// errCancelled is the cause of a cancelled wait. No other error equals it.
var errCancelled = errors.New("the buyer has left")

// cancellable is a context that ends with errCancelled.
func cancellable(w *lab.World) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(w.Context())
	return ctx, func() { cancel(errCancelled) }
}
