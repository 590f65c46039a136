package lab

import (
	"context"
	"errors"
	"sync"

	"oversell/internal/stock"
)

// beside is the strategy that sells beside the column's: a script that checks and
// takes in one step, and asks for no lock.
const beside = "lua_atomic"

func mixedStrategies() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "mixed-strategies",
			Sentence: "Two strategies sell one item at the same time. A lock keeps out only those who ask for it: what the other strategy writes is overwritten, and a unit is sold twice. So it is at a shop with -mixed.",
			Sequence: "Two units are left. A is in its section: it has read the stock and works on its order. B buys with lua_atomic, a script that asks for no lock. A writes the stock and its order. B buys until it is told that nothing is left.",
			Source:   "flock(2) of Linux: a process is free to ignore an advisory lock, and every lock in Redis is one; a rollout in which the old version of a shop and the new one guard the same stock in different ways",
		},
		record:   "BBH BBBBBBBBB BBB BBB",
		requires: []claim{sold("A", "B")},
		run:      func(w *World) verdict { return w.sellBeside(true) },
	}
}

func strategiesTakeTurns() Scenario {
	return Scenario{
		Anomaly: Anomaly{
			Name:     "strategies-take-turns",
			Sentence: "While buyers of one family of strategies are at work on an item, those of another wait, or are told to come back. The shop does this unless it is started with -mixed: the remedy for mixed-strategies.",
			Sequence: "As in mixed-strategies, at a shop without -mixed. B is refused while A is at work, and asks again until it is told that nothing is left.",
			Source:   "docs/design.md, Strategies take turns",
		},
		record:   "HHH HHHHHHHHH HHH HHH",
		requires: []claim{sold("A", "B"), keptApart("B")},
		run:      func(w *World) verdict { return w.sellBeside(false) },
	}
}

// keptApart claims that each of the actors was refused, unless its strategy is of the
// column's family: those need no turns.
func keptApart(names ...string) claim {
	return of(names, "%s was never refused", func(w *World, who string) bool {
		return w.deeds.has(wasRefused, who) || w.deeds.has(isOfFamily, who)
	})
}

// sellBeside has A sell by the column's strategy, and B by another one while A is at
// work, at a shop that keeps the two apart unless it is mixed.
func (w *World) sellBeside(mixed bool) verdict {
	f := w.openFlashSale(2)
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	work := func(ctx context.Context) {
		once.Do(func() { close(inside) })
		select {
		case <-goOn:
		case <-ctx.Done():
		case <-w.ctx.Done(): // an optimistic guard hands on no end
		}
	}
	a := f.outlet(w.Start("A"), outletConfig{strategy: w.column.Name, mixed: mixed, wait: 4 * w.TTL, work: work})
	b := f.outlet(w.Start("B"), outletConfig{strategy: beside, mixed: mixed, wait: w.TTL / 40})
	if !mixed && a.family() == b.family() {
		w.deeds.add(isOfFamily, "B")
		w.Note("B", "need not wait: its strategy is of the same family as that of A")
	}
	var err error
	first := w.Go(func() { err = a.buy() })
	select {
	case <-inside:
	case <-first:
		need(false, "A did not come to its section: %v", err)
	}
	// A's process looks at times of its own whether it is still at work. B is not in
	// step with that, or what comes first would be left to chance.
	w.Sleep(w.TTL / 80)
	told := b.answer()
	close(goOn)
	w.must(first, "the end of all buyers")
	for n := 0; !errors.Is(told, stock.ErrSoldOut); n++ {
		need(n < mostRequests, "B was not told that nothing is left")
		told = b.answer()
	}
	return f.audit()
}

// mostRequests is ample: B asks three or four times.
const mostRequests = 50

// answer buys until it is told something of the sale: that nobody had time for the
// buyer says nothing of it.
func (o *outlet) answer() error {
	for range mostRequests {
		err := o.buy()
		if err == nil || errors.Is(err, stock.ErrSoldOut) || errors.Is(err, stock.ErrOtherStrategy) {
			return err
		}
		need(errors.Is(err, stock.ErrBusy), "%s could not buy: %v", o.p.name, err)
	}
	need(false, "%s was not answered in time", o.p.name)
	return nil
}
