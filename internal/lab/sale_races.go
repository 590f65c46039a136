package lab

import (
	"context"

	"oversell/internal/locks"
)

func saleScenarios() []Scenario {
	return []Scenario{lostUpdate(), localMutex(), pausedWriter(), halfSale(), earlyRelease(), lateRelease(), mixedStrategies(), strategiesTakeTurns(), recursiveRetry(), doubleAsk(), optimisticAborts()}
}

func lostUpdate() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "lost-update",
			Sentence: "Two buyers read the same stock, and both write it back less one: two units are sold, and the stock shows one.",
			Sequence: "One instance. A reads the stock and works on its order. B comes in the middle of it. Both buy.",
			Source:   "the check-then-act race of every shop that reads, checks and writes: qiurunze123/miaosha#145",
		},
		record:   "BHH HHHHHHHHH HHH HHH",
		requires: []claim{sold("A", "B")},
		run: func(w *World) verdict {
			a := w.Start("A")
			return w.race(a, a.Another("B"))
		},
	}
}

func localMutex() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "local-mutex-across-instances",
			Sentence: "A mutex in the program's memory keeps out nobody who comes through a second copy of the program.",
			Sequence: "Two instances. A reads the stock and works on its order. B comes to the other instance in the middle of it. Both buy.",
			Source:   "a mutex or synchronized block that stayed in place as the service was scaled out to several pods",
		},
		record:   "BBH HHHHHHHHH HHH HHH",
		requires: []claim{sold("A", "B")},
		run:      func(w *World) verdict { return w.race(w.Start("A"), w.Start("B")) },
	}
}

// race lets two buy at about the same time.
func (w *World) race(a, b *Process) verdict {
	s := w.open(10)
	work := w.TTL / 5
	first := w.Go(func() { _ = s.buyer(a, work).buy() })
	w.Sleep(work / 2)
	second := w.Go(func() { _ = s.buyer(b, work).buy() })
	w.together(first, second)
	return s.audit()
}

func pausedWriter() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "paused-writer",
			Sentence: "A buyer stands still just before it writes; its lock runs out, another one buys; then the first goes on, and writes over what the other wrote.",
			Sequence: "A, with the lock, is about to write the stock: the write has left its program. Its process is stopped for longer than the ttl. B buys. A goes on, and its write arrives.",
			Source:   "Martin Kleppmann, How to do distributed locking (2016): a long pause of the garbage collector; HBase had this bug",
		},
		record:   "BBH HBBBBBBHH BBB BHH",
		requires: []claim{struck("A"), sold("B")},
		run: func(w *World) verdict {
			s := w.open(10)
			a, b := w.Start("A"), w.Start("B")
			write := a.park(either(on(w.stockKey(), "SET"), named("EXEC"), fencedWrite(w.stockKey())))
			first := w.Go(func() { _ = s.buyer(a, 0).buy() })
			w.must(write.parked, "A's write")
			a.Freeze()
			w.Sleep(w.TTL + w.TTL/2)
			patience, cancel := context.WithTimeout(w.ctx, w.TTL)
			defer cancel()
			second := w.Go(func() { _ = s.buyer(b, 0).buyWithin(patience) })
			w.Sleep(w.TTL / 3)
			a.Thaw()
			write.release()
			w.together(first, second)
			return s.audit()
		},
	}
}

func halfSale() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "half-a-sale",
			Sentence: "The shop dies between taking a unit from the stock and writing the order: the unit is gone, and nobody has bought it.",
			Sequence: "A takes a unit from the stock and is killed before it writes the order. The books are compared.",
			Source:   "two systems and no transaction over both; no lock makes one of them (dual writes: Debezium, Reliable Microservices Data Exchange With the Outbox Pattern, 2019)",
		},
		record:   "BBB BBBBBBBBB BBB BBB",
		requires: []claim{struck("A")},
		run: func(w *World) verdict {
			s := w.open(10)
			a := w.Start("A")
			b := s.buyer(a, 0)
			b.ordering = func() error {
				a.Kill()
				return context.Canceled
			}
			w.together(w.Go(func() { _ = b.buy() }))
			return s.audit()
		},
	}
}

func recursiveRetry() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "recursive-retry",
			Sentence: "A buyer who finds the lock taken waits and calls itself again; when the inner call has bought, the outer one goes on and buys once more. That is a flaw in the use: no lock helps.",
			Sequence: "A holds the lock. B is refused twice, each time sleeps and calls itself; no return and no else keep the outer calls from the work. B wants one unit.",
			Source:   "a retry by recursion as it is found in lock tutorials, locks.Recursive here",
		},
		record:    "--- BBBBBBBBB BBB BBB",
		requires:  []claim{sold("A"), refused("B")},
		senseless: needsLoser,
		run: func(w *World) verdict {
			s := w.open(10)
			a, b := w.Start("A"), w.Start("B")
			first := w.Go(func() { _ = s.buyer(a, w.TTL/4).buy() })
			w.Sleep(w.TTL / 20)
			retrying := s.buyer(b, 0)
			retrying.guard = w.column.stockGuard(b, locks.Recursive{Delay: w.TTL / 8})
			second := w.Go(func() { _ = retrying.buy() })
			w.together(first, second)
			need(s.orders > 1, "A or B bought nothing")
			if s.orders > 2 {
				return w.broke("B", "B wanted one unit and bought %d", s.orders-1)
			}
			return holds("B wanted one unit and bought %d", s.orders-1)
		},
	}
}

func doubleAsk() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "double-setnx",
			Sentence: "The lock is taken once before the loop, and asked for again in the loop's condition: the caller waits for the lock that it has itself, or has it twice and gives it back once. That is a flaw in the use: no lock helps.",
			Sequence: "The lock is free. A takes it and does not look at the answer; then it asks for it in the condition of a loop, for half the ttl, and unlocks when it has it. B asks, for half the ttl.",
			Source:   "a slip of the pen in the material this project grew out of: SETNX on the line before the loop, and again in its condition",
		},
		record:    "-B- BBBBBBBBB BBB BBB",
		requires:  []claim{had("A", "B"), isLock},
		senseless: needsLock,
		run: func(w *World) verdict {
			a := w.Start("A")
			b := a.Another("B").Holder() // in one instance, or a local lock were none
			h := a.Holder()
			h.MustLock()
			w.Note("A", "asks again, in the condition of its loop")
			if !h.Obtain(w.TTL / 2) {
				return w.broke("A", "A waits for the lock that it has itself")
			}
			_ = h.Unlock()
			return w.soonFree(b, "A has the lock twice and gives it back once: ")
		},
	}
}
