package lab

// abortsPerSale is more work thrown away than is sold: far above what a lock
// costs, which is none, and far below what many buyers at once cost without.
const abortsPerSale = 1

func optimisticAborts() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "optimistic-aborts",
			Sentence: "Everybody works at once, and the write of all but one is refused: most of the work is thrown away.",
			Sequence: "Twelve buyers on three instances buy at once; each works a moment between reading and writing. Attempts are counted against sales.",
			Source:   "the retries of WATCH under contention: redis.io, Transactions, Optimistic locking using check-and-set",
		},
		record:   "HHB HHHHHHHHH HHH HHH",
		requires: []claim{sold("A", "B", "C")},
		run: func(w *World) verdict {
			s := w.open(100)
			var all []<-chan struct{}
			for _, name := range []string{"A", "B", "C"} {
				p := w.Start(name)
				guard := w.column.stockGuard(p, nil)
				for range 4 {
					one := s.buyer(p, w.TTL/300)
					one.guard = guard
					all = append(all, w.Go(func() { _ = one.buy() }))
				}
			}
			w.together(all...)
			aborts := s.attempts - int(s.orders)
			text := "%d sales took %d attempts"
			if aborts > abortsPerSale*int(s.orders) {
				return w.broke("", text, s.orders, s.attempts)
			}
			return holds(text, s.orders, s.attempts)
		},
	}
}
