package lab

import "oversell/internal/locks"

func clockScenarios() []Scenario { return []Scenario{clockMinority(), clockMajority()} }

func clockMinority() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "clock-jump-minority",
			Sentence: "The clocks of fewer than half of the servers jump ahead: the lease ends there at once, and the others must keep the next one out.",
			Sequence: "A takes the lock. The clocks of two nodes of five are set ahead by the ttl. B asks while A works.",
			Source:   "redis.io, Distributed Locks with Redis: the lock is safe as long as a majority of the keys is there; Salvatore Sanfilippo, Is Redlock safe? (2016)",
		},
		record:    "--- --------- --- H--",
		requires:  []claim{had("A"), answered("B")},
		clocks:    true,
		senseless: needsMinority,
		run:       func(w *World) verdict { return w.jump(len(w.sides) - w.majority()) },
	}
}

func clockMajority() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "clock-jump-majority",
			Sentence: "The clocks of more than half of the servers jump ahead, or that of the one that there is: the lease ends there at once, and the next one is let in while its holder works.",
			Sequence: "A takes the lock. The clocks of three nodes of five, or of the one server, are set ahead by the ttl. B asks while A works.",
			Source:   "Martin Kleppmann, How to do distributed locking (2016): breaking Redlock with bad timings; Salvatore Sanfilippo, Is Redlock safe? (2016), who asks for clocks that do not jump",
		},
		record:    "--- HBBBBBBBB BBB B--",
		requires:  []claim{had("A"), answered("B")},
		clocks:    true,
		senseless: needsWallClock,
		run:       func(w *World) verdict { return w.jump(w.majority()) },
	}
}

// needsMinority is for questions about fewer than half of a lock's servers.
func needsMinority(c Column) string {
	if why := needsWallClock(c); why != "" {
		return why
	}
	if c.Needs != locks.NeedsNodes {
		return "it is kept by one server, which has no minority"
	}
	return ""
}

// jump sets the clocks of n servers ahead by the ttl while A has the lock, and has B
// ask. What the servers say that the time is does not jump with it: those in memory
// have no clock that goes on from where it was set. It is the leases that end.
func (w *World) jump(n int) verdict {
	a, b := w.Start("A").Holder(), w.Start("B").Holder()
	a.MustLock()
	w.Sleep(w.TTL / 20)
	w.alone(func() {
		e := w.trace.add("", Fault, "the clock of "+w.servers(n)+" jumps ahead by "+about(w.TTL))
		for _, keeper := range w.server.keepers()[:n] {
			keeper.jump(w.TTL)
		}
		w.show(e)
	})
	return w.overlap(a, b)
}
