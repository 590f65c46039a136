package lab

import "oversell/internal/lab/wire"

func renewalScenarios() []Scenario {
	return []Scenario{renewalAfterUnlock(), secondRenewer(), renewalError(), lossNotTold()}
}

// notRenewed is why questions about a renewal make no sense.
const notRenewed = "nothing renews it"

// renewed reports whether the lock outlives its ttl, its holder alive. It lets
// one and a half times the ttl pass.
func (w *World) renewed() bool {
	w.Sleep(w.TTL + w.TTL/2)
	s := w.look()
	return s.held && s.left > 0
}

func renewalAfterUnlock() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "renewal-after-unlock",
			Sentence: "The lock is given back, and its timer goes on renewing it: another one's lock, or one that nobody has.",
			Sequence: "A takes the lock and lets it be renewed. A unlocks while a renewal is on its way. B takes the lock and gives it back. For three times the ttl A must send nothing, and the lock must be free.",
			Source:   "redisson/redisson#7272: the renewal can outlive the unlock",
		},
		record:    "--- -----HHHH --H H--",
		requires:  []claim{had("A", "B")},
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			h := a.Holder()
			h.MustLock()
			if !w.renewed() {
				return na(notRenewed)
			}
			renewal := a.park(wire.Command.Script)
			w.must(renewal.parked, "a renewal")
			unlocking := w.Go(func() { _ = h.Unlock() })
			w.Settle()
			renewal.release()
			w.must(unlocking, "the end of A's unlock")
			need(b.Obtain(w.TTL/2), "B did not get the lock")
			_ = b.Unlock()
			before := a.Asked()
			w.Sleep(3 * w.TTL)
			sent := a.Asked() - before
			if sent > 0 || w.look().held {
				return w.broke("A", "in three times the ttl after its unlock A has sent %d commands", sent)
			}
			return holds("after its unlock A sends nothing, and the lock is free")
		},
	}
}

// renewalsPerTTL is more than any lock here needs: three are usual.
const renewalsPerTTL = 4

func secondRenewer() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "second-renewer",
			Sentence: "Each time the holder takes the lock once more, another timer is started: the renewals multiply, and the last unlock stops only one of them.",
			Sequence: "A takes the lock four times over and works for four times the ttl. Its renewals are counted. A unlocks four times, and must send nothing more.",
			Source:   "redisson/redisson PR #7251: a renewal was noted for each re-entry, and one of them removed by the unlock; jefferyjob/go-redislock",
		},
		record:    "--- -----HHHH --- ---",
		requires:  []claim{had("A"), isLock},
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			h := a.Holder()
			h.MustLock()
			if !w.renewed() {
				return na(notRenewed)
			}
			for range 3 {
				if !h.Try() {
					return na("it cannot be taken twice: see nested-acquire")
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
			need(renewals > 0, "A sent no renewal")
			if renewals > length*renewalsPerTTL || a.Asked() > before {
				return w.broke("A", "%d renewals in %d times the ttl, and %d after the last unlock", renewals, length, a.Asked()-before)
			}
			return holds("%d renewals in %d times the ttl, none after the last unlock", renewals, length)
		},
	}
}

func renewalError() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "renewal-ends-with-an-error",
			Sentence: "One renewal fails though most of the lease is left, and the holder loses a lock that the next renewal would have saved.",
			Sequence: "A takes the lock and works for four times the ttl. One renewal in between is answered BUSY, or on other servers than Redis not at all: its connection breaks. Does A keep the lock to the end?",
			Source:   "redisson/redisson#3194: the watchdog does not go on after a failed connection",
		},
		record:    "--- -----HHHH --B HHH",
		requires:  []claim{had("A")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			h := a.Holder()
			h.MustLock()
			told := h.Told()
			if !w.renewed() {
				return na(notRenewed)
			}
			if busy := wire.ErrorReply("BUSY Redis is busy running a script."); a.member == nil {
				a.Fault(wire.Command.Script, 1, "answered with an error", answer(busy))
			} else {
				a.loseReply(nil)
			}
			lost := w.await(told, 2*w.TTL+w.TTL/2)
			held := w.look().held
			switch {
			case lost:
				return w.broke("A", "A loses the lock over one error, and is told")
			case !held:
				return w.broke("A", "A loses the lock over one error, and is not told")
			}
			return holds("the next renewal makes up for it")
		},
	}
}

func lossNotTold() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "loss-not-told",
			Sentence: "The lock is lost while the holder works, and nobody tells it to stop.",
			Sequence: "A takes the lock and works. An operator deletes the key. Within the ttl A must be told, before it unlocks.",
			Source:   "mike-marcacci/node-redlock#313: how to know that the lock has expired; go-redsync/redsync PR #149: nodes in memory that restart",
		},
		record:    "--- BBBBBHHHH BBH HHH",
		requires:  []claim{had("A")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			h := w.Start("A").Holder()
			h.MustLock()
			told := h.Told()
			w.Sleep(w.TTL / 10)
			w.loseKey(len(w.sides), "an operator deletes the lock")
			ok := w.await(told, w.TTL)
			return w.verdict(ok, "A", "A is told within the ttl", "after a whole ttl A has not been told, and works on")
		},
	}
}
