package anomalies

import (
	"context"
	"slices"
	"sync/atomic"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/stock"
)

func saleScenarios() []lab.Scenario {
	return slices.Concat(
		[]lab.Scenario{lostUpdate, localMutex, pausedWriter, halfSale, earlyRelease, lateRelease},
		mixedScenarios(), []lab.Scenario{recursiveRetry, doubleAsk, optimisticAborts},
	)
}

var lostUpdate = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "lost-update",
		Loss:     lab.SellsTwice,
		Sentence: "Two buyers read the same stock, and both write it back less one: two units are sold, and the stock shows one.",
		Sequence: "One instance. A reads the stock and works on its order. B starts in the middle of that. Both buy.",
		Source:   "the check-then-act race of every shop that reads, checks and writes: qiurunze123/miaosha#145",
	},
	Requires: []lab.Claim{sold("A", "B")},
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A")
		return race(w, a, a.Another("B"))
	},
}

var localMutex = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "local-mutex-across-instances",
		Loss:     lab.SellsTwice,
		Sentence: "A mutex in the program's memory does not keep out buyers at a second instance of the program.",
		Sequence: "Two instances. A reads the stock and works on its order. B starts at the other instance in the middle of that. Both buy.",
		Source:   "a mutex or synchronized block that stayed in place as the service was scaled out to several pods",
	},
	Requires: []lab.Claim{sold("A", "B")},
	Run:      func(w *lab.World) lab.Verdict { return race(w, w.Start("A"), w.Start("B")) },
}

// race lets two buy at about the same time.
func race(w *lab.World, a, b *lab.Process) lab.Verdict {
	s := w.OpenShop(10)
	work := w.TTL / 5
	first := w.Go(func() { _ = s.Buyer(a, work).Buy() })
	w.Sleep(work / 2)
	second := w.Go(func() { _ = s.Buyer(b, work).Buy() })
	w.Together(first, second)
	return s.Audit()
}

var pausedWriter = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "paused-writer",
		Loss:     lab.SellsTwice,
		Sentence: "A buyer is paused just before its write; its lock expires, and somebody else buys. Then the first resumes and overwrites what the other wrote.",
		Sequence: "A, which holds the lock, is about to write the stock: the write has left its program. Its process is stopped for longer than the ttl. B buys. A resumes, and its write arrives.",
		Source:   "Martin Kleppmann, How to do distributed locking (2016): a long pause of the garbage collector; HBase had this bug",
	},
	Requires: []lab.Claim{faulted("A"), sold("B")},
	Run: func(w *lab.World) lab.Verdict {
		s := w.OpenShop(10)
		a, b := w.Start("A"), w.Start("B")
		write := a.Park(either(on(w.StockKey(), "SET"), named("EXEC"), fencedWrite(w.StockKey())))
		first := w.Go(func() { _ = s.Buyer(a, 0).Buy() })
		w.Must(write.Parked, "A's write")
		a.Freeze()
		w.Sleep(w.TTL + w.TTL/2)
		patience, cancel := context.WithTimeout(w.Context(), w.TTL)
		defer cancel()
		second := w.Go(func() { _ = s.Buyer(b, 0).BuyWithin(patience) })
		w.Sleep(w.TTL / 3)
		a.Thaw()
		write.Release()
		w.Together(first, second)
		return s.Audit()
	},
}

var halfSale = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "half-a-sale",
		Loss:     lab.Stuck,
		Sentence: "The shop dies between taking a unit from the stock and writing the order: the unit is gone, and nobody has bought it.",
		Sequence: "A takes a unit from the stock and is killed before it writes the order. The books are compared.",
		Source:   "two systems and no transaction over both; no lock makes one of them (dual writes: Debezium, Reliable Microservices Data Exchange With the Outbox Pattern, 2019)",
	},
	Requires: []lab.Claim{faulted("A")},
	Run: func(w *lab.World) lab.Verdict {
		s := w.OpenShop(10)
		a := w.Start("A")
		b := s.Buyer(a, 0)
		b.Ordering = func() error {
			a.Kill()
			return context.Canceled
		}
		w.Together(w.Go(func() { _ = b.Buy() }))
		return s.Audit()
	},
}

var recursiveRetry = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "recursive-retry",
		Loss:     lab.SellsTwice,
		Sentence: "A buyer that finds the lock taken waits and calls itself again; when the inner call has bought, the outer one goes on and buys once more. This is a mistake in the use of the lock: no lock helps.",
		Sequence: "A holds the lock. B is refused twice; each time it sleeps and calls itself. No return and no else keep the outer calls from doing the work again. B wants one unit.",
		Source:   "a retry by recursion as it is found in lock tutorials, guard.Recursive here",
	},
	Requires:      []lab.Claim{sold("A"), refused("B")},
	NotApplicable: needsLoser,
	Run: func(w *lab.World) lab.Verdict {
		s := w.OpenShop(10)
		a, b := w.Start("A"), w.Start("B")
		first := w.Go(func() { _ = s.Buyer(a, w.TTL/4).Buy() })
		w.Sleep(w.TTL / 20)
		retrying := s.Buyer(b, 0)
		retrying.Guard = b.StockGuard(guard.Recursive{Fixed: guard.Fixed{Delay: w.TTL / 8}})
		second := w.Go(func() { _ = retrying.Buy() })
		w.Together(first, second)
		lab.Need(s.Orders > 1, "A or B bought nothing")
		if s.Orders > 2 {
			return w.Broke("B", "B wanted one unit and bought %d", s.Orders-1)
		}
		return lab.Holds.Because("B wanted one unit and bought %d", s.Orders-1)
	},
}

var doubleAsk = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "double-setnx",
		Loss:     lab.WaitsForNothing,
		Sentence: "The lock is taken once before the loop, and again in the loop's condition: the caller waits for itself, or has the lock twice and gives it back once. This is a mistake in the use of the lock: no lock helps.",
		Sequence: "The lock is free. A takes it and ignores the result; then it asks for it in the condition of a loop, for half the ttl, and unlocks when it has it. B asks, for half the ttl.",
		Source:   "a slip of the pen in the material this project grew out of: SETNX on the line before the loop, and again in its condition",
	},
	Requires:      []lab.Claim{had("A", "B"), lab.IsLock},
	NotApplicable: needsLock,
	Run: func(w *lab.World) lab.Verdict {
		a := w.Start("A")
		b := a.Another("B").Holder() // in one instance, or a local lock were none
		h := a.Holder()
		h.MustLock()
		w.Note("A", "asks again, in the condition of its loop")
		if !h.Obtain(w.TTL / 2) {
			return w.Broke("A", "A waits for the lock that it holds itself")
		}
		_ = h.Unlock()
		return soonFree(w, b, "A has the lock twice and gives it back once: ")
	},
}

// abortsPerSale is more work thrown away than is sold: far above what a lock
// costs (nothing), and far below what many buyers at once cost without one.
const abortsPerSale = 1

var optimisticAborts = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "optimistic-aborts",
		Loss:     lab.WastedWork,
		Sentence: "All buyers work at once, and all but one of their writes are refused: most of the work is thrown away.",
		Sequence: "Twelve buyers on three instances buy at once; each works a moment between reading and writing. Attempts are counted against sales.",
		Source:   "the retries of WATCH under contention: redis.io, Transactions, Optimistic locking using check-and-set",
	},
	Requires: []lab.Claim{sold("A", "B", "C")},
	Run: func(w *lab.World) lab.Verdict {
		s := w.OpenShop(100)
		var all []<-chan struct{}
		for _, name := range []string{"A", "B", "C"} {
			p := w.Start(name)
			guard := p.StockGuard(nil)
			for range 4 {
				one := s.Buyer(p, w.TTL/300)
				one.Guard = guard
				all = append(all, w.Go(func() { _ = one.Buy() }))
			}
		}
		w.Together(all...)
		aborts := s.Attempts - int(s.Orders)
		text := "%d sales took %d attempts"
		if aborts > abortsPerSale*int(s.Orders) {
			return w.Broke("", text, s.Orders, s.Attempts)
		}
		return lab.Holds.Because(text, s.Orders, s.Attempts)
	},
}

var earlyRelease = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "released-before-commit",
		Loss:     lab.SellsTwice,
		Sentence: "The lock is given back inside a transaction that commits a moment later: the next holder does not yet see what was written. This is a mistake in the use of the lock: no lock helps.",
		Sequence: "One unit is left. A begins a transaction, takes the lock, finds no order, writes one, gives the lock back, and only then commits. B does the same, and has the lock before A commits.",
		Source:   "redisson/redisson#2183; hyperledger-labs/fabric-smart-client PR #670, of an advisory lock",
	},
	Requires:      []lab.Claim{had("A", "B")},
	NotApplicable: needsSharedLock,
	Run:           func(w *lab.World) lab.Verdict { return lastUnit(w, false) },
}

var lateRelease = lab.Scenario{
	Anomaly: lab.Anomaly{
		Name:     "committed-before-release",
		Loss:     lab.SellsTwice,
		Sentence: "What was written is committed before the lock is given back, and the next holder sees it: the remedy for released-before-commit.",
		Sequence: "One unit is left. A takes the lock, begins a transaction, finds no order, writes one, commits, and only then gives the lock back. B does the same.",
		Source:   "the answer in redisson/redisson#2183",
	},
	Requires:      []lab.Claim{had("A", "B")},
	NotApplicable: needsSharedLock,
	Run:           func(w *lab.World) lab.Verdict { return lastUnit(w, true) },
}

// lastUnit has two buy the last unit, whose orders are committed a while after
// they are written: within the lock, or after it was given back.
func lastUnit(w *lab.World, within bool) lab.Verdict {
	var orders atomic.Int64        // that are committed, and so visible
	var commits, late atomic.Int64 // late: entries after a commit
	sell := func(p *lab.Process) func() {
		guard := p.StockGuard(nil)
		return func() {
			var wrote bool
			commit := func() {
				w.Sleep(w.TTL / 10)
				commits.Add(1)
				if wrote {
					orders.Add(1)
					w.Note(p.Name, "commits its order")
				}
			}
			enter := w.Asks(p.Name)
			_, _ = guard.Do(w.Context(), stock.Location{Key: w.StockKey()}, w.Entry(p.Name+"/1"), func(context.Context, stock.Counter) error {
				defer enter()()
				late.Add(min(commits.Load(), 1))
				wrote = orders.Load() == 0
				if within {
					commit()
				}
				return nil
			})
			if !within {
				commit()
			}
		}
	}
	first := w.Go(sell(w.Start("A")))
	w.Sleep(w.TTL / 20)
	second := w.Go(sell(w.Start("B")))
	w.Together(first, second)
	lab.Need(orders.Load() > 0, "nobody bought")
	lab.Need(within || late.Load() == 0, "B had the lock only after A had committed")
	return w.Verdict(orders.Load() == 1, "B", "one order was written", "one unit was left, and two orders are committed")
}

// needsSharedLock is for questions about a lock that two instances share.
func needsSharedLock(c lab.Subject) string {
	if c.InProcess {
		return "two instances share no lock: see local-mutex-across-instances"
	}
	return needsLock(c)
}
