package anomalies

import (
	"fmt"

	"oversell/internal/catalog"
	"oversell/internal/lab"
)

var cutOff = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "cut-off-holder",
		Loss:     lab.SellsTwice,
		Sentence: "The holder can no longer reach Redis, so its lease expires there. Its own clock must tell it so before another holder is let in.",
		Sequence: "A takes the lock; soon after that everything that its connection sends is lost. B asks again and again, and gets the lock when A's lease is over. A works on for three times the ttl.",
		Source:   "redisson/redisson#5698: no renewal for longer than the lease, and a second pod has the lock",
	},
	Requires:      []lab.Claim{had("A"), faulted("A"), refused("B")},
	NotApplicable: needsRemoteLock,
	Run: func(w *lab.World) lab.Verdict {
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
		w.Must(asking, "the end of B")
		holder.Done()
		return handedOver(w, "A", "B")
	},
}

// handedOver is the Exclusive verdict, with how long before or after the next holder was
// let in the first one was told of its loss.
func handedOver(w *lab.World, first, next string) lab.Verdict {
	v := w.Exclusive()
	told, wasTold := w.First(first, lab.Lost)
	came, hasCome := w.First(next, lab.Hold)
	switch {
	case v.Outcome == lab.Holds && wasTold && hasCome:
		v.Note = fmt.Sprintf("%s was told of its loss %s before %s had the lock", first, lab.About(came-told), next)
	case v.Outcome == lab.Holds && !hasCome:
		v.Note = "the lock does not expire, and nobody is let in"
	case v.Outcome == lab.Breaks && wasTold && hasCome:
		v.Note += fmt.Sprintf(", and %s was told %s later", first, lab.About(told-came))
	case v.Outcome == lab.Breaks && hasCome:
		v.Note += fmt.Sprintf(", and %s was never told", first)
	}
	return v
}

var failover = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "failover",
		Loss:     lab.SellsTwice,
		Sentence: "The Redis that granted the lock dies before its replica has received it: the replica takes over and grants the lock to somebody else.",
		Sequence: "A takes the lock. The lock's key disappears, as on a replica that never received it. B asks at once.",
		Source:   "redis.io, Distributed Locks with Redis: why failover-based implementations are not enough",
	},
	Requires:      []lab.Claim{had("A"), answered("B")},
	NotApplicable: needsForgetful,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A").Holder(), w.Start("B").Holder()
		a.MustLock()
		w.Sleep(w.TTL / 20)
		w.LoseLock(1, "a replica that never received the lock takes over")
		return overlap(w, a, b)
	},
}

var restartForgets = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "restart-forgets-lock",
		Loss:     lab.SellsTwice,
		Sentence: "The servers that granted the lock, or more than half of them if there are several, restart within its lease and lose their memory.",
		Sequence: "A takes the lock. More than half of the servers that keep it are empty at once: one of one, three of five. B asks at once.",
		Source:   "redis.io, Distributed Locks with Redis: performance, crash recovery and fsync",
	},
	Requires:      []lab.Claim{had("A"), answered("B")},
	NotApplicable: needsForgetful,
	Run: func(w *lab.World) lab.Verdict {
		a, b := w.Start("A").Holder(), w.Start("B").Holder()
		a.MustLock()
		w.Sleep(w.TTL / 20)
		n := w.Majority()
		w.LoseLock(n, w.ServerNames(n)+" restarted, empty")
		return overlap(w, a, b)
	},
}

// overlap lets b ask for the lock while a works.
func overlap(w *lab.World, a, b *lab.Holder) lab.Verdict {
	_ = b.Try()
	w.Sleep(w.TTL / 20)
	b.Done()
	a.Done()
	return w.Exclusive()
}

func clockScenarios() []lab.Scenario { return []lab.Scenario{clockMinority, clockMajority} }

var clockMinority = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "clock-jump-minority",
		Loss:     lab.SellsTwice,
		Sentence: "The clocks of fewer than half of the servers jump ahead: the lease expires there at once, and the other servers must keep the next holder out.",
		Sequence: "A takes the lock. The clocks of two nodes of five are set ahead by the ttl. B asks while A works.",
		Source:   "redis.io, Distributed Locks with Redis: the lock is safe as long as a majority of the keys is there; Salvatore Sanfilippo, Is Redlock safe? (2016)",
	},
	Requires:      []lab.Claim{had("A"), answered("B")},
	Clocks:        true,
	NotApplicable: needsMinority,
	Run:           func(w *lab.World) lab.Verdict { return jump(w, w.Servers()-w.Majority()) },
}

var clockMajority = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "clock-jump-majority",
		Loss:     lab.SellsTwice,
		Sentence: "The clocks of more than half of the servers, or of the only server, jump ahead: the lease expires there at once, and the next holder is let in while the first still works.",
		Sequence: "A takes the lock. The clocks of three nodes of five, or of the one server, are set ahead by the ttl. B asks while A works.",
		Source:   "Martin Kleppmann, How to do distributed locking (2016): breaking Redlock with bad timings; Salvatore Sanfilippo, Is Redlock safe? (2016), who asks for clocks that do not jump",
	},
	Requires:      []lab.Claim{had("A"), answered("B")},
	Clocks:        true,
	NotApplicable: needsWallClock,
	Run:           func(w *lab.World) lab.Verdict { return jump(w, w.Majority()) },
}

// needsMinority is for questions about fewer than half of a lock's servers.
func needsMinority(c lab.Subject) string {
	if why := needsWallClock(c); why != "" {
		return why
	}
	if c.Needs != catalog.NeedsNodes {
		return "one server keeps it, and one server has no minority"
	}
	return ""
}

// jump sets the clocks of n servers ahead by the ttl while A has the lock, and has B
// ask.
func jump(w *lab.World, n int) lab.Verdict {
	a, b := w.Start("A").Holder(), w.Start("B").Holder()
	a.MustLock()
	w.Sleep(w.TTL / 20)
	w.JumpClocks(n)
	return overlap(w, a, b)
}
