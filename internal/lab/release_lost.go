package lab

func lostReplyUnlock() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "lost-reply-gives-up",
			Sentence: "The answer that grants the lock gets lost: the lock is held by somebody who was told otherwise and goes away.",
			Sequence: "A asks for the lock. Redis grants it, and the connection breaks before the answer is there. A unlocks, as far as it has something to unlock with, and goes away. B asks, for half the ttl.",
			Source:   "redisson/redisson#1966",
		},
		record:    "--- HHHHHHHHH HBB HHH",
		requires:  []claim{had("B"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			a.loseReply(anyCommand)
			h := a.Holder()
			_, _ = h.Ask()
			_ = h.Unlock()
			w.Settle()
			return w.soonFree(b, "")
		},
	}
}

func lostReplyRetry() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "lost-reply-asks-again",
			Sentence: "The answer that grants the lock gets lost, and who asked for it asks again: it waits for itself, or has the lock twice and gives it back once.",
			Sequence: "A asks for the lock. Redis grants it, and the connection breaks before the answer is there. A asks again, for half the ttl, and unlocks when it has the lock. B asks, for half the ttl.",
			Source:   "mike-marcacci/node-redlock PR #369; redisson/redisson#1966",
		},
		record:    "--- BBBBBBBBH HBB HHH",
		requires:  []claim{had("A", "B"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			a.loseReply(anyCommand)
			h := a.Holder()
			if ok, _ := h.Ask(); !ok && !h.Obtain(w.TTL/2) {
				return w.broke("A", "A waits for the lock that it has itself")
			}
			_ = h.Unlock()
			w.Settle()
			return w.soonFree(b, "A has given back what it got, but ")
		},
	}
}

func repeatedUnlock() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "repeated-unlock",
			Sentence: "The answer to an unlock gets lost, the unlock is repeated, and removes the lock of the next holder.",
			Sequence: "A unlocks. Redis does so, and the connection breaks before the answer is there. B takes the lock. A unlocks once more. C asks while B works.",
			Source:   "clients that repeat a command by themselves after a network error, as go-redis does unless MaxRetries is -1",
		},
		record:    "--- BBHHHHHHH HHH HHH",
		requires:  []claim{had("A", "B"), refused("C"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
			h := a.Holder()
			h.MustLock()
			a.loseReply(release)
			_ = h.Unlock()
			w.Settle()
			need(b.Obtain(w.TTL/2), "B did not get the lock")
			_ = h.Unlock()
			_ = c.Try()
			return w.exclusive()
		},
	}
}
