package anomalies

import (
	"sync/atomic"

	"oversell/internal/lab"
)

func expiryScenarios() []lab.Scenario {
	return []lab.Scenario{
		orphan, setnxThenExpire, handedOnHolderDies, expiresWhileHeld, longWork, lateReply, cutOff, stoppedHolder,
		failover, restartForgets, forgottenUnlock,
	}
}

var orphan = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "orphan-after-crash",
		Loss:     lab.Stuck,
		Sentence: "A process dies while it holds the lock, and nobody can ever acquire the lock again.",
		Sequence: "A takes the lock and is killed. B asks again and again, for three times the ttl.",
		Source:   "redisson/redisson#100: the locks of a client that was shut down abnormally remain for ever",
	},
	Requires:      []lab.Claim{had("A", "B"), faulted("A"), unlessInMemory(refused("B"))},
	NotApplicable: needsLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B")
		a.Holder().MustLock()
		a.Kill()
		return freeAgain(w, b, "A")
	},
}

// freeAgain reports whether b gets the lock in the end that a dead process took.
func freeAgain(w *lab.World, b *lab.Process, dead string) lab.Verdict {
	ok := b.Holder().Obtain(3 * w.TTL)
	return w.Verdict(ok, b.Name, b.Name+" gets the lock in the end", b.Name+" does not get the lock in three times the ttl: "+dead+" took it, and its process is dead")
}

var setnxThenExpire = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "crash-before-expire",
		Loss:     lab.Stuck,
		Sentence: "One command acquires the lock and the next sets its expiry; a process that dies between the two leaves the lock behind for ever.",
		Sequence: "A is killed as soon as Redis has executed the first command with which it acquires the lock. B asks again and again, for three times the ttl.",
		Source:   "redis/redis-py#818; laravel/framework PR #29076",
	},
	Requires:      []lab.Claim{faulted("A"), had("B")},
	NotApplicable: needsRedisLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B")
		first := lab.NewPause()
		a.Inject(lab.AnyCommand, 1, "", first.After)
		asking := w.Go(func() { _, _ = a.Holder().Ask() })
		w.Must(first.Parked, "A's first command")
		a.Kill()
		w.Must(asking, "the end of A")
		return freeAgain(w, b, "A")
	},
}

var handedOnHolderDies = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "handed-on-holder-dies",
		Loss:     lab.Stuck,
		Sentence: "A waiter is handed the lock and dies at once. If the lock was handed on without an expiry, nobody can ever acquire it again.",
		Sequence: "A holds the lock. Two callers in one process, B/1 and B/2, wait for it. A unlocks; one of the two gets the lock and gives it back, and the other gets it. At that moment their process is killed. C asks again and again, for three times the ttl.",
		Source:   "redisson/redisson#6150: the application died with a fair lock, and all who came later waited without end",
	},
	Requires:      []lab.Claim{had("A", "B/1", "B/2", "C"), faulted("B"), refused("C"), lab.IsLock},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b, c := w.Start("A").Holder(), w.Start("B"), w.Start("C")
		a.MustLock()
		var served atomic.Int32
		turn := func(h *lab.Holder) func() {
			return func() {
				if !h.Wait(4 * w.TTL) {
					return
				}
				if served.Add(1) == 1 {
					_ = h.Unlock()
					return
				}
				b.Kill()
			}
		}
		first := w.Go(turn(b.Caller(1)))
		w.Sleep(w.TTL / 20)
		second := w.Go(turn(b.Caller(2)))
		w.Sleep(w.TTL / 20)
		_ = a.Unlock()
		w.Together(first, second)
		lab.Need(served.Load() == 2, "B/1 and B/2 did not both get the lock")
		return freeAgain(w, c, "B")
	},
}

var forgottenUnlock = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "forgotten-unlock",
		Loss:     lab.Stuck,
		Sentence: "A holder returns early and never gives the lock back. If the lock is renewed for as long as its process lives, it stays for ever.",
		Sequence: "A takes the lock and does not unlock it. Its process lives on. B asks again and again, for three times the ttl.",
		Source:   "redisson/redisson#1626: a watchdog that was never cancelled renewed its lock until the instance was restarted",
	},
	Requires:      []lab.Claim{had("A", "B"), refused("B")},
	NotApplicable: needsLock,
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A")
		b := a.Another("B") // in one instance, or a local lock were none
		h := a.Holder()
		h.MustLock()
		h.Done()
		ok := b.Holder().Obtain(3 * w.TTL)
		return w.Verdict(ok, b.Name, b.Name+" gets the lock in the end", b.Name+" does not get the lock in three times the ttl: A took it, and never unlocks it")
	},
}

var expiresWhileHeld = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "expires-while-held",
		Loss:     lab.SellsTwice,
		Sentence: "The work takes longer than the ttl: the lock expires while its holder works, and a second holder is let in.",
		Sequence: "A takes the lock and works for two and a half times the ttl. B asks for the lock all the while.",
		Source:   "go-co-op/gocron-redis-lock#54: a job that takes longer than the expiry is run twice",
	},
	Requires:      []lab.Claim{had("A"), refused("B")},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A").Holder(), w.Start("B").Holder()
		a.MustLock()
		asking := w.Go(func() {
			w.Sleep(w.TTL / 7)
			if b.Obtain(2 * w.TTL) {
				w.Sleep(w.TTL / 10)
				_ = b.Unlock()
			}
		})
		w.Sleep(2*w.TTL + w.TTL/2)
		_ = a.Unlock()
		w.Must(asking, "the end of B")
		return w.Exclusive()
	},
}

var longWork = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "long-work",
		Loss:     lab.SellsTwice,
		Sentence: "The lock does not last as long as the work: by the time the holder gives it back, it has expired.",
		Sequence: "A takes the lock, works for five times the ttl, and gives the lock back. Nobody else wants it.",
		Source:   "leandromoreira/redlock-rb#68: what the ttl means for work that takes longer; the reason for the watchdog of Redisson",
	},
	Requires:      []lab.Claim{had("A")},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A").Holder()
		a.MustLock()
		w.Sleep(5*w.TTL + w.TTL/7)
		there := w.LockHeld()
		_ = a.Unlock()
		return w.Verdict(there, "A", "after five times the ttl the lock is still there", "after five times the ttl the lock is gone, and A still works")
	},
}

var lateReply = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "late-reply",
		Loss:     lab.SellsTwice,
		Sentence: "The reply that grants the lock arrives after the lease has expired; a caller that trusts it believes it holds a lock that somebody else has by then.",
		Sequence: "A asks for the lock. Redis grants it, and the reply is delayed for one and a half times the ttl. Meanwhile B takes the lock. Then A gets its reply.",
		Source:   "redis.io, Distributed Locks with Redis: the validity is the ttl less the time that it took to acquire; go-redsync/redsync#72",
	},
	Requires:      []lab.Claim{answered("B")},
	NotApplicable: needsRedisLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		late := lab.NewPause()
		a.Inject(lab.AnyCommand, 1, "its reply is delayed", late.After)
		asking := w.Go(func() { _, _ = a.Holder().Ask() })
		w.Must(late.Parked, "the reply")
		w.Sleep(w.TTL + w.TTL/3)
		_ = b.Try()
		w.Sleep(w.TTL / 6)
		late.Release()
		w.Must(asking, "A's answer")
		w.Settle()
		w.Settle()
		return w.Exclusive()
	},
}

var stoppedHolder = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "stopped-holder",
		Loss:     lab.SellsTwice,
		Sentence: "The holder's whole process is paused for longer than its lease, its clock included: the next holder is let in, and the first can be told only when it resumes.",
		Sequence: "A takes the lock, and its process is stopped for longer than the ttl. B asks, and gets the lock as soon as it can. A resumes. How long did both believe that they held the lock?",
		Source:   "Martin Kleppmann, How to do distributed locking (2016): a process that is paused; no lease can tell it, and paused-writer shows what a fencing token does for it",
	},
	Requires:      []lab.Claim{had("A"), faulted("A"), answered("B")},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A"), w.Start("B").Holder()
		holder := a.Holder()
		holder.MustLock()
		w.Sleep(w.TTL / 10)
		a.Freeze()
		w.Sleep(w.TTL + w.TTL/3)
		second := b.Obtain(w.TTL)
		w.Sleep(w.TTL / 6)
		a.Thaw()
		w.Sleep(w.TTL / 2)
		holder.Done()
		if second {
			b.Done()
		}
		return handedOver(w, "A", "B")
	},
}
