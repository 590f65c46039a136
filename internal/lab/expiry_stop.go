package lab

func stoppedHolder() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "stopped-holder",
			Sentence: "The holder's whole process stands still for longer than its lease, its clock with it: the next one is let in, and the first can be told only as it goes on.",
			Sequence: "A takes the lock, and its process is stopped for longer than the ttl. B asks, and has the lock as soon as it can. A goes on. How long did both have the lock, as far as they knew?",
			Source:   "Martin Kleppmann, How to do distributed locking (2016): a process that is paused; no lease can tell it, and paused-writer shows what a fencing token does for it",
		},
		record:    "--- HBBBBBBBB BBB BBB",
		requires:  []claim{had("A"), struck("A"), answered("B")},
		senseless: needsRemoteLock,
		run: func(w *World) verdict {
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
			return w.handedOver("A", "B")
		},
	}
}
