package lab

import (
	"context"
	"errors"
)

func reentryScenarios() []Scenario {
	return []Scenario{nestedAcquire(), innerUnlock(), failedReentry(), reentryShortens(), sharedToken()}
}

func nestedAcquire() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "nested-acquire",
			Sentence: "A holder calls code that takes the same lock, and waits for itself.",
			Sequence: "A takes the lock, and further down its own call asks for it again, with a handle of its own and the same owner, for half the ttl.",
			Source:   "code that calls other code under the same lock; the reason for the R in Redisson's RLock",
		},
		record:    "-B- BBBBHHHHH BBB BBB",
		requires:  []claim{had("A"), isLock},
		senseless: needsLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			outer, inner := a.Holder(), a.Holder()
			outer.MustLock()
			w.Note("A", "calls code that takes the lock again")
			ok := inner.Obtain(w.TTL / 2)
			return w.verdict(ok, "A", "the inner call has the lock too", "A waits for the lock that it has itself")
		},
	}
}

func innerUnlock() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "inner-unlock-frees-outer",
			Sentence: "The inner of two nested holds is given back, and the lock is free though the outer one goes on.",
			Sequence: "A takes the lock twice and gives it back once. B asks while A works on.",
			Source:   "zeromicro/go-zero#1338",
		},
		record:    "--- ----HHHHH --- ---",
		requires:  []claim{had("A"), refused("B"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			h := a.Holder()
			h.MustLock()
			if !h.Try() {
				return na("it cannot be taken twice: see nested-acquire")
			}
			_ = h.Unlock()
			_ = b.Try()
			v := w.exclusive()
			if v.outcome == Holds {
				_ = h.Unlock()
				return w.verdict(b.Try(), "B", v.note, "after the last unlock the lock is still taken")
			}
			return v
		},
	}
}

func failedReentry() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "failed-re-entry-frees-outer",
			Sentence: "The inner of two nested calls does not get through to Redis, and cleans up by an unlock; what it gives back is the outer call's lock.",
			Sequence: "A takes the lock. Further down its own call it asks again, and the connection breaks before Redis hears of it; the inner call unlocks to be safe. B asks while A works on.",
			Source:   "a count that Redis keeps and a clean-up that does not know it: the stages v5 and v6 of this project, TestFailedReentryFreesOuter",
		},
		record:    "--- BBHHBBBBH HHH HHH",
		requires:  []claim{had("A"), refused("B"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			outer, inner := a.Holder(), a.Holder()
			outer.MustLock()
			mend := a.loseQuestion(true)
			before := a.Asked()
			inner.askFor(w.TTL / 2)
			asked := a.Asked() > before
			mend()
			_ = inner.Unlock()
			freed := b.Try()
			w.Settle()
			if v := w.exclusive(); v.outcome != Holds {
				return v
			}
			good := "the outer call keeps its lock"
			if !asked {
				good += ": its process knows that it holds the lock, and asks nobody"
			}
			return w.verdict(!freed, "A", good, "the outer call works on, and its lock is B's; all that it was told is that its context is over")
		},
	}
}

func reentryShortens() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "re-entry-keeps-the-old-lease",
			Sentence: "The holder takes the lock once more shortly before its lease ends, and the lease is not renewed for it: the inner work loses the lock at once.",
			Sequence: "A takes the lock. With a fifth of its lease left, it takes the lock again and works for half a ttl. Is the lock still there?",
			Source:   "an expiry that is set at the outermost acquire alone; compare Redisson's tryLock script, which sets it each time",
		},
		record:    "--- ----HHHHH --- ---",
		requires:  []claim{had("A"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			h := w.Start("A").Holder()
			h.MustLock()
			w.Sleep(w.TTL * 4 / 5)
			if !h.Try() {
				return na("it cannot be taken twice: see nested-acquire")
			}
			w.Sleep(w.TTL / 2)
			return w.verdict(w.look().held, "A", "the lock is still there", "the lock is gone, and A still works")
		},
	}
}

func sharedToken() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "token-not-unique",
			Sentence: "Two processes go by the same name, as process 1 in two containers does: the lock takes one for the other.",
			Sequence: "A and B both call themselves 1:1. A takes the lock. B asks, and unlocks. C asks while A works. Where a lock makes its own tokens, the names do not matter.",
			Source:   "locks that use a process, thread or goroutine id as the token: xiaoxuxiansheng/redis_lock",
		},
		record:    "--- BBHHBBBBH HHH HHH",
		requires:  []claim{had("A"), refused("C"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b, c := w.Start("A").HolderAs("1:1"), w.Start("B").HolderAs("1:1"), w.Start("C").Holder()
			a.MustLock()
			_ = b.Try()
			_ = b.Unlock()
			_ = c.Try()
			return w.exclusive()
		},
	}
}

// errCancelled is what a wait is cancelled with: its own cause, to be told
// from all others.
var errCancelled = errors.New("the buyer has left")

// cancellable is a context that ends with errCancelled.
func (w *World) cancellable() (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(w.ctx)
	return ctx, func() { cancel(errCancelled) }
}
