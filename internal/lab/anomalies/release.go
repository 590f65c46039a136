package anomalies

import (
	"context"
	"fmt"

	"oversell/internal/lab"
)

func releaseScenarios() []lab.Scenario {
	return []lab.Scenario{
		foreignDelete, foreignChain, checkThenDelete, foreignUnlock, lateUnlock, lostHoldHandedOn, unlockAfterFailure,
		unlockAfterCancel, acquireTimesOut, lostReplyUnlock, lostReplyRetry, repeatedUnlock,
	}
}

var foreignDelete = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "foreign-delete",
		Loss:     lab.SellsTwice,
		Sentence: "A holder that unlocks late deletes the lock of the next holder, and a third one is let in.",
		Sequence: "A's work is done, and its process is stopped before it unlocks. The lease expires, and B takes the lock. A resumes and unlocks. C asks while B works.",
		Source:   "every lock that is given back by a bare DEL: redis.io, SET, Patterns",
	},
	Requires:      []lab.Claim{had("A"), faulted("A"), answered("B", "C"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
		late := a.Holder()
		late.MustLock()
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
			v.Note = "the lock does not expire, and B is kept out until A unlocks"
		}
		return v
	},
}

var foreignChain = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "foreign-delete-chain",
		Loss:     lab.SellsTwice,
		Sentence: "Each late holder deletes the lock of the next one, which is then late as well: in the end there is no lock at all.",
		Sequence: "A, B, C and D each take the lock as soon as they can, finish their work, and unlock only after the next one has been let in.",
		Source:   "the same bare DEL, under load for as long as the work is slower than the ttl",
	},
	Requires:      []lab.Claim{had("A"), faulted("A"), answered("B"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
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
				break // the lock stands: the chain ends here
			}
		}
		for _, p := range processes {
			p.Thaw()
		}
		v := w.Exclusive()
		if v.Outcome == lab.Breaks {
			v.Note = fmt.Sprintf("%d locks in a row were removed by the holder before: %s", foreign, v.Note)
		}
		return v
	},
}

var checkThenDelete = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "check-then-delete",
		Loss:     lab.SellsTwice,
		Sentence: "The holder checks whether the lock is still its own, and then deletes it. Between the two the lock expires, and somebody else takes it.",
		Sequence: "A unlocks. Its last command, the one that deletes, is delayed for longer than the ttl. B takes the lock. The command arrives. C asks while B works.",
		Source:   "GET and DEL as two commands: the reason for the script in redis.io, SET, Patterns",
	},
	Requires:      []lab.Claim{had("A"), answered("B"), lab.IsLock},
	NotApplicable: needsRedisLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
		first := a.Holder()
		first.MustLock()
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
	},
}

var foreignUnlock = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "foreign-unlock",
		Loss:     lab.SellsTwice,
		Sentence: "Somebody who does not hold the lock unlocks it, and it opens.",
		Sequence: "A takes the lock. B, which never had it, unlocks. C asks while A works.",
		Source:   "a deferred unlock, or one in a finally block, that runs even where the lock was not had: redisson/redisson#581",
	},
	Requires:      []lab.Claim{had("A"), refused("C"), lab.IsLock},
	NotApplicable: needsUnlock,
	Run: func(w *lab.World) lab.Verdict {
		a, b, c := w.Start("A").Holder(), w.Start("B").Holder(), w.Start("C").Holder()
		a.MustLock()
		err := b.Unlock()
		_ = c.Try()
		v := w.Exclusive()
		if v.Outcome == lab.Holds {
			return w.Verdict(err != nil, "B", "the unlock is refused, and B is told", "the unlock is refused, and B is not told")
		}
		return v
	},
}

var lateUnlock = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "late-unlock-not-told",
		Loss:     lab.APITrap,
		Sentence: "A holder unlocks too late: the lock already belongs to another holder, and nothing tells it so.",
		Sequence: "A takes the lock, and its process is stopped. The lease expires, and B takes the lock. A resumes and unlocks. Did the lock report the loss, by its own error or before?",
		Source:   "spring-projects/spring-integration PR #2661; go-redsync/redsync PR #143 and #107, of the error that says so",
	},
	Requires:      []lab.Claim{had("A"), faulted("A"), answered("B"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		late := a.Holder()
		late.MustLock()
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
	},
}

var lostHoldHandedOn = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "lost-hold-handed-on",
		Loss:     lab.SellsTwice,
		Sentence: "A holder has lost the lock and gives it back. That lets in a waiter of its own process, although another process has the lock by now.",
		Sequence: "A/1 and A/2 are callers in one process. A/1 holds the lock, and A/2 waits for it. A/1's work is done; before it unlocks an operator deletes the key, and B takes the lock. Half a ttl later A/1 unlocks, and after that B does. A/2 must wait until then, and get a lock that is not lost.",
		Source:   "a hold that the callers of one process hand on among themselves, as in lock cohorting (Dice, Marathe and Shavit, PPoPP 2012), and that can end in between",
	},
	Requires:      []lab.Claim{had("A/1", "B", "A/2"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
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
			return w.Broke("A/2", "A/2 goes on waiting, and never gets the lock")
		}
		return lab.Holds.Because("A/2 has the lock after B has given it back")
	},
}

var unlockAfterFailure = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "unlock-after-failed-acquire",
		Loss:     lab.SellsTwice,
		Sentence: "A caller that does not know whether it got the lock unlocks to be safe, and so unlocks somebody else's.",
		Sequence: "B holds the lock. A asks, and its connection breaks before Redis sees the command. A unlocks, because it may have got the lock. C asks while B works.",
		Source:   "a clean-up after an error, by a bare DEL, as in many a finally block",
	},
	Requires:      []lab.Claim{had("B"), refused("C"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
		b.MustLock()
		unsure := a.Holder()
		mend := a.LoseQuestion(false)
		unsure.AskFor(w.TTL / 2)
		mend()
		_ = unsure.Unlock()
		_ = c.Try()
		return w.Exclusive()
	},
}

var unlockAfterCancel = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "unlock-after-cancel",
		Loss:     lab.WaitsForNothing,
		Sentence: "The caller is cancelled while it holds the lock, and its unlock fails for the same reason: the lock stays.",
		Sequence: "A takes the lock. Its context is cancelled. A unlocks with that context. B asks, for half the ttl.",
		Source:   "blnkfinance/blnk PR #355; kalbasit/ncps PR #913; googleforgames/open-match PR #1578",
	},
	Requires:      []lab.Claim{had("A", "B"), lab.IsLock},
	NotApplicable: needsLock,
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A")
		b := a.Another("B").Holder()
		h := a.Holder()
		h.MustLock()
		cancelled, cancel := context.WithCancel(h.Context())
		cancel()
		_ = h.UnlockIn(cancelled)
		return soonFree(w, b, "")
	},
}

// soonFree reports whether b gets the lock without waiting for its lease to
// run out.
func soonFree(w *lab.World, b *lab.Holder, why string) lab.Verdict {
	ok := b.Obtain(w.TTL / 2)
	return w.Verdict(ok, b.Name, b.Name+" gets the lock soon", why+b.Name+" does not get the lock within half the ttl: it is still taken, and nobody holds it")
}

var acquireTimesOut = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "acquire-times-out",
		Loss:     lab.WaitsForNothing,
		Sentence: "A caller's time runs out just as Redis grants it the lock: the lock stays, and nobody holds it.",
		Sequence: "A asks for the lock, in a context with a deadline. Redis grants it; the deadline passes before the reply arrives. A unlocks, if it has anything to unlock with. B asks, for half the ttl.",
		Source:   "a clean-up in the caller's context, which is over: googleforgames/open-match PR #1578; vitessio/vitess#15756",
	},
	Requires:      []lab.Claim{had("B"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		h := a.Holder()
		h.MustLock() // so that the connection is there
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
		return soonFree(w, b, "")
	},
}

var lostReplyUnlock = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "lost-reply-gives-up",
		Loss:     lab.WaitsForNothing,
		Sentence: "The reply that grants the lock is lost: the lock is held by a caller that was told otherwise and goes away.",
		Sequence: "A asks for the lock. Redis grants it, and the connection breaks before the reply arrives. A unlocks, if it has anything to unlock with, and goes away. B asks, for half the ttl.",
		Source:   "redisson/redisson#1966",
	},
	Requires:      []lab.Claim{had("B"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		a.LoseReply(lab.AnyCommand)
		h := a.Holder()
		_, _ = h.Ask()
		_ = h.Unlock()
		w.Settle()
		return soonFree(w, b, "")
	},
}

var lostReplyRetry = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "lost-reply-asks-again",
		Loss:     lab.WaitsForNothing,
		Sentence: "The reply that grants the lock is lost, and the caller asks again: it waits for itself, or has the lock twice and gives it back once.",
		Sequence: "A asks for the lock. Redis grants it, and the connection breaks before the reply arrives. A asks again, for half the ttl, and unlocks when it has the lock. B asks, for half the ttl.",
		Source:   "mike-marcacci/node-redlock PR #369; redisson/redisson#1966",
	},
	Requires:      []lab.Claim{had("A", "B"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		a.LoseReply(lab.AnyCommand)
		h := a.Holder()
		if ok, _ := h.Ask(); !ok && !h.Obtain(w.TTL/2) {
			return w.Broke("A", "A waits for the lock that it holds itself")
		}
		_ = h.Unlock()
		w.Settle()
		return soonFree(w, b, "A has given back what it got, but ")
	},
}

var repeatedUnlock = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "repeated-unlock",
		Loss:     lab.SellsTwice,
		Sentence: "The reply to an unlock is lost; the unlock is repeated and deletes the lock of the next holder.",
		Sequence: "A unlocks. Redis does so, and the connection breaks before the reply arrives. B takes the lock. A unlocks once more. C asks while B works.",
		Source:   "clients that repeat a command by themselves after a network error, as go-redis does unless MaxRetries is -1",
	},
	Requires:      []lab.Claim{had("A", "B"), refused("C"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b, c := w.Start("A"), w.Start("B").Holder(), w.Start("C").Holder()
		h := a.Holder()
		h.MustLock()
		a.LoseReply(release)
		_ = h.Unlock()
		w.Settle()
		lab.Need(b.Obtain(w.TTL/2), "B did not get the lock")
		_ = h.Unlock()
		_ = c.Try()
		return w.Exclusive()
	},
}
