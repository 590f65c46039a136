package lab

func cutOff() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "cut-off-holder",
			Sentence: "The holder no longer reaches Redis, so its lease runs out there; it must know so by its own clock before another one comes in.",
			Sequence: "A takes the lock; soon its connection loses all that is sent. B asks again and again, and gets the lock when A's lease is over. A works on for three times the ttl.",
			Source:   "redisson/redisson#5698: no renewal for longer than the lease, and a second pod has the lock",
		},
		record:    "--- HBBBBHHH BBB",
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a, b := w.Start("A"), w.Start("B").Holder()
			holder := a.Holder()
			holder.MustLock()
			w.Sleep(w.TTL / 10)
			a.Cut()
			w.Sleep(w.TTL / 70)
			asking := w.Go(func() {
				if b.Obtain(2 * w.TTL) {
					w.Sleep(w.TTL)
					b.Done()
				}
			})
			w.must(asking, "the end of B")
			holder.Done()
			return w.exclusive()
		},
	}
}

func failover() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "failover",
			Sentence: "The Redis that granted the lock dies before its replica has heard of it: the replica takes over and grants the lock to somebody else.",
			Sequence: "A takes the lock. The lock's key is gone, as it is on a replica that never got it. B asks at once.",
			Source:   "redis.io, Distributed Locks with Redis: why failover-based implementations are not enough",
		},
		record:    "--- BBBBBBBB BBB",
		senseless: needsRedisLock,
		run: func(w *World) verdict {
			a, b := w.Start("A").Holder(), w.Start("B").Holder()
			a.MustLock()
			w.Sleep(w.TTL / 20)
			w.loseKey("a replica takes over that never heard of the lock")
			_ = b.Try()
			w.Sleep(w.TTL / 20)
			b.Done()
			a.Done()
			return w.exclusive()
		},
	}
}

// loseKey removes the lock from Redis, past its holder.
func (w *World) loseKey(why string) {
	err := w.side.Del(w.ctx, w.redisKey()).Err()
	need(err == nil, "the key could not be removed: %v", err)
	e := w.trace.add("", Fault, why)
	w.trace.change(e, func(e *Event) { e.Lock = "free" })
}
