package lab

func expiresWhileHeld() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "expires-while-held",
			Sentence: "The work takes longer than the ttl: the lock runs out under its holder, and a second holder comes in.",
			Sequence: "A takes the lock and works for two and a half times the ttl. B asks for the lock all the while.",
			Source:   "go-co-op/gocron-redis-lock#54: a job that takes longer than the expiry is run twice",
		},
		record:    "--- HBBBBHHHH BBH HHH",
		requires:  []claim{had("A"), refused("B")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
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
			w.must(asking, "the end of B")
			return w.exclusive()
		},
	}
}

func longWork() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "long-work",
			Sentence: "The lock does not last as long as the work: by the time the holder gives it back, it is gone.",
			Sequence: "A takes the lock, works for five times the ttl, and gives the lock back. Nobody else wants it.",
			Source:   "leandromoreira/redlock-rb#68: what the ttl means for work that takes longer; the reason for the watchdog of Redisson",
		},
		record:    "--- HBBBBHHHH BBH HHH",
		requires:  []claim{had("A")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
			a := w.Start("A").Holder()
			a.MustLock()
			w.Sleep(5*w.TTL + w.TTL/7)
			there := w.look().held
			_ = a.Unlock()
			return w.verdict(there, "A", "after five times the ttl the lock is still there", "after five times the ttl the lock is gone, and A still works")
		},
	}
}

func lateReply() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "late-reply",
			Sentence: "The answer that grants the lock arrives when the lease has run out already; who takes it at its word believes in a lock that another one has by now.",
			Sequence: "A asks for the lock. Redis grants it, and the answer is held up for one and a half times the ttl. Meanwhile B takes the lock. A gets its answer.",
			Source:   "redis.io, Distributed Locks with Redis: the validity is the ttl less the time that it took to acquire; go-redsync/redsync#72",
		},
		record:    "--- HBBBBHHHH HHH H--",
		requires:  []claim{answered("B")},
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			late := newPause()
			a.Fault(anyCommand, 1, "its reply is held up", late.after)
			asking := w.Go(func() { _, _ = a.Holder().Ask() })
			w.must(late.parked, "the reply")
			w.Sleep(w.TTL + w.TTL/3)
			_ = b.Try()
			w.Sleep(w.TTL / 6)
			late.release()
			w.must(asking, "A's answer")
			w.Settle()
			w.Settle()
			return w.exclusive()
		},
	}
}
