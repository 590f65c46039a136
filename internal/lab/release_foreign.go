package lab

import "fmt"

func releaseScenarios() []Scenario {
	return []Scenario{
		foreignDelete(), foreignChain(), checkThenDelete(), foreignUnlock(), lateUnlock(), lostHoldHandedOn(), unlockAfterFailure(),
		unlockAfterCancel(), acquireTimesOut(), lostReplyUnlock(), lostReplyRetry(), repeatedUnlock(),
	}
}

func foreignDelete() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "foreign-delete",
			Sentence: "A holder that is late in letting go removes the lock of the next one, and a third comes in on it.",
			Sequence: "A's work is done, and its process is stopped before it unlocks. The lease runs out, B takes the lock. A goes on and unlocks. C asks while B works.",
			Source:   "every lock that is given back by a bare DEL: redis.io, SET, Patterns",
		},
		record:    "--- HBHHHHHHH HHH HHH",
		requires:  []claim{had("A"), struck("A"), answered("B", "C"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
			late := a.Holder()
			late.MustLock()
			w.Sleep(w.TTL / 10)
			late.Done()
			a.Freeze()
			w.Sleep(w.TTL + w.TTL/3)
			second := b.comesIn()
			a.Thaw()
			_ = late.Unlock()
			w.Settle()
			_ = c.Try()
			v := w.exclusive()
			if v.outcome == Holds && !second {
				v.note = "the lock does not run out, and B is kept out until A lets go"
			}
			return v
		},
	}
}

func foreignChain() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "foreign-delete-chain",
			Sentence: "Each late holder removes the lock of the next, who is then late as well: in the end there is no lock at all.",
			Sequence: "A, B, C and D each take the lock as soon as they can, are done with their work, and unlock only after the next one has come in.",
			Source:   "the same bare DEL, under load for as long as the work is slower than the ttl",
		},
		record:    "--- HBHHHHHHH HHH HHH",
		requires:  []claim{had("A"), struck("A"), answered("B"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			var processes []*Process
			var holders []*Holder
			for i := range 4 {
				p := w.Start(string(rune('A' + i)))
				processes, holders = append(processes, p), append(holders, p.Holder())
			}
			holders[0].MustLock()
			holders[0].Done()
			processes[0].Freeze()
			w.Sleep(w.TTL + w.TTL/3)
			foreign := 0
			second := holders[1].comesIn()
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
					break // the lock stands: the chain ends here
				}
			}
			for _, p := range processes {
				p.Thaw()
			}
			v := w.exclusive()
			if v.outcome == Breaks {
				v.note = fmt.Sprintf("%d locks in a row were removed by the holder before: %s", foreign, v.note)
			}
			return v
		},
	}
}

func checkThenDelete() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "check-then-delete",
			Sentence: "The holder looks whether the lock is still its own, and then deletes it; in between the lock runs out and is another one's.",
			Sequence: "A unlocks. Its last command, the one that deletes, is held up on its way for longer than the ttl. B takes the lock. The command arrives. C asks while B works.",
			Source:   "GET and DEL as two commands: the reason for the script in redis.io, SET, Patterns",
		},
		record:    "--- HBBHHHHHH HHH H--",
		requires:  []claim{had("A"), answered("B"), isLock},
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
			first := a.Holder()
			first.MustLock()
			deletion := a.park(release)
			unlocking := w.Go(func() { _ = first.Unlock() })
			w.must(deletion.parked, "the command that deletes")
			w.Sleep(w.TTL + w.TTL/3)
			second := b.Try()
			deletion.release()
			w.must(unlocking, "the end of A's unlock")
			w.Settle()
			if second {
				_ = c.Try()
			}
			return w.exclusive()
		},
	}
}

func foreignUnlock() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "foreign-unlock",
			Sentence: "Somebody who does not hold the lock unlocks it, and it opens.",
			Sequence: "A takes the lock. B, who never had it, unlocks. C asks while A works.",
			Source:   "a deferred unlock, or one in a finally block, that runs even where the lock was not had: redisson/redisson#581",
		},
		record:    "--- BBHHHHHHH H-- HHH",
		requires:  []claim{had("A"), refused("C"), isLock},
		senseless: needsUnlock,
		run: func(w *World) verdict {
			a, b, c := w.Start("A").Holder(), w.Start("B").Holder(), w.Start("C").Holder()
			a.MustLock()
			err := b.Unlock()
			_ = c.Try()
			v := w.exclusive()
			if v.outcome == Holds {
				return w.verdict(err != nil, "B", "the unlock is refused, and B is told", "the unlock is refused, and B is not told")
			}
			return v
		},
	}
}
