package anomalies

import (
	"context"
	"sync/atomic"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/stock"
)

var lostUpdate = lab.Try("lost-update", nil, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	return race(w, a, a.Another("B"))
}, sold("A", "B"))

var localMutex = lab.Try("local-mutex-across-instances", nil, func(w *lab.World) lab.Verdict {
	return race(w, w.Start("A"), w.Start("B"))
}, sold("A", "B"))

// race lets a and b buy at about the same time.
func race(w *lab.World, a, b *lab.Process) lab.Verdict {
	s := w.OpenShop(10)
	work := w.TTL / 5
	first := w.Go(func() { _ = s.Buyer(a, work).Buy() })
	w.Sleep(work / 2)
	second := w.Go(func() { _ = s.Buyer(b, work).Buy() })
	w.Together(first, second)
	return s.Audit()
}

var pausedWriter = lab.Try("paused-writer", nil, func(w *lab.World) lab.Verdict {
	s := w.OpenShop(10)
	a, b := w.Start("A"), w.Start("B")
	write := a.Park(writes(w.StockKey()))
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
}, faulted("A"), sold("B"))

var halfSale = lab.Try("half-a-sale", nil, func(w *lab.World) lab.Verdict {
	s := w.OpenShop(10)
	a := w.Start("A")
	b := s.Buyer(a, 0)
	b.Ordering = func() error {
		a.Kill()
		return context.Canceled
	}
	w.Together(w.Go(func() { _ = b.Buy() }))
	return s.Audit()
}, faulted("A"))

var recursiveRetry = lab.Try("recursive-retry", needsLoser, func(w *lab.World) lab.Verdict {
	s := w.OpenShop(10)
	a, b := w.Start("A"), w.Start("B")
	first := w.Go(func() { _ = s.Buyer(a, w.TTL/4).Buy() })
	w.Sleep(w.TTL / 20)
	retrying := s.Buyer(b, 0)
	retrying.Guard = b.StockGuard(guard.Recursive{Fixed: guard.Fixed{Delay: w.TTL / 8}})
	second := w.Go(func() { _ = retrying.Buy() })
	w.Together(first, second)
	orders := w.Times(lab.HasSold)
	lab.Need(orders > 1, "A or B bought nothing")
	if orders > 2 {
		return w.Broke("B", "B wanted one unit and bought %d", orders-1)
	}
	return lab.Holds.Because("B wanted one unit and bought 1")
}, sold("A"), refused("B"))

var doubleAsk = lab.Try("double-setnx", needsLock, func(w *lab.World) lab.Verdict {
	a := w.Start("A")
	b := a.Another("B").Holder() // in A's instance, because a local lock excludes nobody outside it
	h := a.Holding()
	w.Note("A", "asks again, in the condition of its loop")
	if !h.Obtain(w.TTL / 2) {
		return w.Broke("A", "A waits for the lock that it already holds")
	}
	_ = h.Unlock()
	return soonFree(w, b, "A has the lock twice and gives it back once: "+stillTaken)
}, had("A", "B"), lab.IsLock)

// abortsPerSale is the acceptable number of aborted attempts per sale. A lock has none, and many
// concurrent buyers without a lock have far more.
const abortsPerSale = 1

var optimisticAborts = lab.Try("optimistic-aborts", nil, func(w *lab.World) lab.Verdict {
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
	orders, attempts := w.Times(lab.HasSold), w.Times(lab.HadLock)
	text := "%d sales took %d attempts"
	if attempts-orders > abortsPerSale*orders {
		return w.Broke("", text, orders, attempts)
	}
	return lab.Holds.Because(text, orders, attempts)
}, sold("A", "B", "C"))

var earlyRelease = lab.Try("released-before-commit", needsSharedLock, func(w *lab.World) lab.Verdict {
	return lastUnit(w, false)
}, had("A", "B"))

var lateRelease = lab.Try("committed-before-release", needsSharedLock, func(w *lab.World) lab.Verdict {
	return lastUnit(w, true)
}, had("A", "B"))

// lastUnit lets A and B try to buy the last unit. They commit their orders a while after they write
// them: within the lock, or after they have released it.
func lastUnit(w *lab.World, within bool) lab.Verdict {
	var orders atomic.Int64        // committed, so they are visible
	var commits, late atomic.Int64 // late: sections that began after a commit
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
			_, _ = guard.Do(w.Context(), stock.Location{Key: w.StockKey()}, w.Entry(p.Name+"/1"),
				func(context.Context, stock.Counter) error {
					defer w.Enters(p.Name)()
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
	return w.Verdict(orders.Load() == 1, "B", "one order was written",
		"one unit was left, and two orders are committed")
}
