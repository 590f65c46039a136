package lab

import "sync/atomic"

func expiryScenarios() []Scenario {
	return []Scenario{
		orphan(), setnxThenExpire(), handedOnHolderDies(), expiresWhileHeld(), longWork(), lateReply(), cutOff(), stoppedHolder(),
		failover(), restartForgets(), forgottenUnlock(),
	}
}

func orphan() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "orphan-after-crash",
			Sentence: "A process dies while it holds the lock, and nobody ever gets the lock again.",
			Sequence: "A takes the lock and is killed. B asks again and again, for three times the ttl.",
			Source:   "redisson/redisson#100: the locks of a client that was shut down abnormally remain for ever",
		},
		record:    "-H- BHHHHHHHH HHH HHH",
		requires:  []claim{had("A", "B"), struck("A"), unlessInMemory(refused("B"))},
		senseless: needsLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B")
			a.Holder().MustLock()
			a.Kill()
			return w.freeAgain(b)
		},
	}
}

// freeAgain reports whether b gets the lock in the end.
func (w *World) freeAgain(b *Process) verdict {
	ok := b.Holder().Obtain(3 * w.TTL)
	return w.verdict(ok, b.name, b.name+" gets the lock in the end", b.name+" does not get the lock in three times the ttl: it is nobody's, and taken")
}

func setnxThenExpire() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "crash-before-expire",
			Sentence: "The lock is taken by one command and given its expiry by the next; a process that dies between the two leaves a lock for ever.",
			Sequence: "A is killed as soon as Redis has executed the first command by which it takes the lock. B asks again and again, for three times the ttl.",
			Source:   "redis/redis-py#818; laravel/framework PR #29076",
		},
		record:    "--- BHHHHHHHH HHH H--",
		requires:  []claim{struck("A"), had("B")},
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B")
			first := newPause()
			a.Fault(anyCommand, 1, "", first.after)
			asking := w.Go(func() { _, _ = a.Holder().Ask() })
			w.must(first.parked, "A's first command")
			a.Kill()
			w.must(asking, "the end of A")
			return w.freeAgain(b)
		},
	}
}

func handedOnHolderDies() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "handed-on-holder-dies",
			Sentence: "A waiter is handed the lock and dies at once. If the lock was handed on without an expiry, nobody ever gets it again.",
			Sequence: "A has the lock. Two callers of one process, B/1 and B/2, wait for it. A unlocks; one of the two gets the lock and gives it back, and the other one gets it. Their process is killed at that moment. C asks again and again, for three times the ttl.",
			Source:   "redisson/redisson#6150: the application died with a fair lock, and all who came later waited without end",
		},
		record:    "--- BHHHHHHHH HHH HHH",
		requires:  []claim{had("A", "B/1", "B/2", "C"), struck("B"), refused("C"), isLock},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a, b, c := w.Start("A").Holder(), w.Start("B"), w.Start("C")
			a.MustLock()
			var served atomic.Int32
			turn := func(h *Holder) func() {
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
			w.together(first, second)
			need(served.Load() == 2, "B/1 and B/2 did not both get the lock")
			return w.freeAgain(c)
		},
	}
}

func forgottenUnlock() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "forgotten-unlock",
			Sentence: "A holder returns early and never gives the lock back; a lock that is renewed for as long as its process lives then stays for ever.",
			Sequence: "A takes the lock and does not unlock it. Its process lives on. B asks again and again, for three times the ttl.",
			Source:   "redisson/redisson#1626: a watchdog that was never cancelled renewed its lock until the instance was restarted",
		},
		record:    "-B- BHHHHBBBB HHB BBB",
		requires:  []claim{had("A", "B"), refused("B")},
		senseless: needsLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			b := a.Another("B") // in one instance, or a local lock were none
			h := a.Holder()
			h.MustLock()
			h.Done()
			return w.freeAgain(b)
		},
	}
}
