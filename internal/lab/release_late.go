package lab

import "context"

func lateUnlock() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "late-unlock-not-told",
			Sentence: "A holder comes too late to unlock: the lock is another one's by now, and it is not told so.",
			Sequence: "A takes the lock, and its process is stopped. The lease runs out, B takes the lock. A goes on and unlocks; did the lock tell it of the loss, by an error of its own kind or before?",
			Source:   "spring-projects/spring-integration PR #2661; go-redsync/redsync PR #143 and #107, of the error that says so",
		},
		record:    "--- HBHHHHHHH HHH HHH",
		requires:  []claim{had("A"), struck("A"), answered("B"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			late := a.Holder()
			late.MustLock()
			told := late.Told()
			a.Freeze()
			w.Sleep(w.TTL + w.TTL/3)
			if !b.comesIn() {
				a.Thaw()
				return holds("the lock does not run out: nobody is late")
			}
			a.Thaw()
			w.Settle()
			warned := w.await(told, w.TTL/2)
			err := late.Unlock()
			switch {
			case warned:
				return holds("A was told of the loss before it unlocked")
			case late.notHeld(err):
				return holds("A is told: %s", brief(err))
			case err != nil:
				return w.broke("A", "A is told, but not that the lock was lost: %s", brief(err))
			}
			return w.broke("A", "unlock succeeds, though the lock was B's")
		},
	}
}

func lostHoldHandedOn() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "lost-hold-handed-on",
			Sentence: "A holder has lost the lock and gives it back; by that a waiter of its own process is let in, though another process has the lock by now.",
			Sequence: "A/1 and A/2 are callers of one process. A/1 has the lock, A/2 waits for it. A/1's work is done; before it unlocks an operator deletes the key, and B takes the lock. Half a ttl later A/1 unlocks, and after that B does. A/2 must wait until then, and get a lock that is not lost.",
			Source:   "a hold that the callers of one process hand on among themselves, as in lock cohorting (Dice, Marathe and Shavit, PPoPP 2012), and that can end in between",
		},
		record:    "--- BBHHHHHHH HHH HHH",
		requires:  []claim{had("A/1", "B", "A/2"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
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
			w.loseKey(len(w.sides), "an operator deletes the lock")
			need(b.Obtain(w.TTL/5), "B did not get the lock")
			w.Sleep(w.TTL / 2)
			_ = late.Unlock()
			w.Sleep(w.TTL / 5)
			_ = b.Unlock()
			w.must(waiting, "the end of A/2")
			switch v := w.exclusive(); {
			case v.outcome != Holds:
				return v
			case next.misled():
				return w.broke("A/2", "A/2 is let in on a hold that is lost already")
			case !served:
				return w.broke("A/2", "A/2 waits on, and never gets the lock")
			}
			return holds("A/2 has the lock after B has given it back")
		},
	}
}

func unlockAfterFailure() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "unlock-after-failed-acquire",
			Sentence: "Who does not know whether it got the lock unlocks to be safe, and so unlocks another one's.",
			Sequence: "B holds the lock. A asks, and its connection breaks before Redis hears of it. A unlocks, for it may have had the lock. C asks while B works.",
			Source:   "a clean-up after an error, by a bare DEL, as in many a finally block",
		},
		record:    "--- BBHHHHHHH HHH HHH",
		requires:  []claim{had("B"), refused("C"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
			b.MustLock()
			unsure := a.Holder()
			mend := a.loseQuestion(false)
			unsure.askFor(w.TTL / 2)
			mend()
			_ = unsure.Unlock()
			_ = c.Try()
			return w.exclusive()
		},
	}
}

func unlockAfterCancel() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "unlock-after-cancel",
			Sentence: "The caller is cancelled while it holds the lock, and its unlock goes the same way: the lock stays.",
			Sequence: "A takes the lock. Its context is cancelled. A unlocks with that context. B asks, for half the ttl.",
			Source:   "blnkfinance/blnk PR #355; kalbasit/ncps PR #913; googleforgames/open-match PR #1578",
		},
		record:    "-H- HHHHHHHHH BBH HHH",
		requires:  []claim{had("A", "B"), isLock},
		senseless: needsLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			b := a.Another("B").Holder()
			h := a.Holder()
			h.MustLock()
			cancelled, cancel := context.WithCancel(h.ctx)
			cancel()
			_ = h.UnlockIn(cancelled)
			return w.soonFree(b, "")
		},
	}
}

// soonFree reports whether b gets the lock without waiting for its lease to
// run out.
func (w *World) soonFree(b *Holder, why string) verdict {
	ok := b.Obtain(w.TTL / 2)
	return w.verdict(ok, b.p.name, b.p.name+" gets the lock soon", why+b.p.name+" does not get the lock within half the ttl: it is still taken, and nobody has it")
}

func acquireTimesOut() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "acquire-times-out",
			Sentence: "A caller's time is up just as Redis grants it the lock: the lock stays, and nobody has it.",
			Sequence: "A asks for the lock, in a context with a deadline. Redis grants it; the deadline passes before the answer is there. A unlocks, as far as it has something to unlock with. B asks, for half the ttl.",
			Source:   "a clean-up in the caller's context, which is over: googleforgames/open-match PR #1578; vitessio/vitess#15756",
		},
		record:    "--- HHHHHHHHH BBH HHH",
		requires:  []claim{had("B"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			h := a.Holder()
			h.MustLock() // so that the connection is there
			_ = h.Unlock()
			under, letGo := a.delay()
			ctx, cancel := context.WithTimeout(h.ctx, w.TTL/30)
			defer cancel()
			asking := w.Go(func() { _, _ = h.AskIn(ctx) })
			w.must(under, "the reply")
			w.await(asking, w.TTL/5)
			letGo()
			w.must(asking, "A's answer")
			_ = h.Unlock()
			w.Settle()
			return w.soonFree(b, "")
		},
	}
}
