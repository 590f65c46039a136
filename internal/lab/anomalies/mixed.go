//go:build !js

package anomalies

import (
	"context"
	"errors"
	"sync"
	"time"

	"oversell/internal/backend"
	"oversell/internal/lab"
	"oversell/internal/stock"
)

// beside is the strategy that sells at the same time as the subject's. Its script checks the stock
// and takes the unit in one step, without a lock.
const beside = "lua_atomic"

func mixedScenarios() []lab.Scenario {
	return []lab.Scenario{mixedStrategies, strategiesTakeTurns}
}

var mixedStrategies = lab.Try("mixed-strategies", nil, func(w *lab.World) lab.Verdict {
	return sellBeside(w, true)
}, sold("A", "B"))

var strategiesTakeTurns = lab.Try("strategies-take-turns", nil, func(w *lab.World) lab.Verdict {
	return sellBeside(w, false)
}, sold("A", "B"), keptApart("B"))

// keptApart claims that each actor was refused, unless its strategy belongs to the subject's
// family. Strategies of one family need not take turns.
func keptApart(names ...string) lab.Claim {
	return of(names, "%s was never refused", func(w *lab.World, who string) bool {
		return w.Did(lab.WasRefused, who) || w.Did(isOfFamily, who)
	})
}

// sellBeside lets A sell by the subject's strategy, and B by another strategy while A is at work.
// The shop does not let both sell at once unless mixed is set.
func sellBeside(w *lab.World, mixed bool) lab.Verdict {
	o := openFlashSale(w, 2)
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	work := func(ctx context.Context) {
		once.Do(func() { close(inside) })
		select {
		case <-goOn:
		case <-ctx.Done():
		case <-w.Context().Done(): // an optimistic guard does not end ctx
		}
	}
	a := o.open(&outlet{p: w.Start("A"), strategy: w.Subject.Name, wait: 4 * w.TTL, work: work}, mixed)
	b := o.open(&outlet{p: w.Start("B"), strategy: beside, wait: w.TTL / 40}, mixed)
	if !mixed && a.service.Family(a.strategy) == b.service.Family(b.strategy) {
		w.Record(isOfFamily, "B")
		w.Note("B", "need not wait: its strategy is of the same family as A's")
	}
	var err error
	first := w.Go(func() { err = a.buy() })
	select {
	case <-inside:
	case <-first:
		lab.Need(false, "A did not reach its section: %v", err)
	}
	told := b.answer()
	close(goOn)
	w.Must(first, "the end of all buyers")
	for n := 0; !errors.Is(told, stock.ErrSoldOut); n++ {
		lab.Need(n < mostRequests, "B was not told that nothing is left")
		told = b.answer()
	}
	return o.auditStock()
}

// mostRequests limits the requests of a buyer. It is more than enough: B needs three or four.
const mostRequests = 50

// answer sends purchase requests until the shop answers something other than "busy".
func (o *outlet) answer() error {
	for range mostRequests {
		err := o.buy()
		if err == nil || errors.Is(err, stock.ErrSoldOut) || errors.Is(err, stock.ErrOtherStrategy) {
			return err
		}
		lab.Need(errors.Is(err, stock.ErrBusy), "%s could not buy: %v", o.p.Name, err)
	}
	lab.Need(false, "%s was not answered in time", o.p.Name)
	return nil
}

// openFlashSale puts an item on sale as the shop does. The trace begins with its keys, because it
// does not show the till's commands to Redis.
func openFlashSale(w *lab.World, units int64) *onSale {
	o := put(w, stock.Item{Initial: units}, backend.RedisHistory(w.Side))
	prefix := "oversell:{" + w.SKU + "}:"
	w.SetLockKey(prefix + "lock:" + w.Subject.Name)
	w.NameKey(prefix+"claims", "claims")
	w.NameKey(o.item.Generation, "generation-1")
	begins := func(key, name string) {
		value, err := w.Side.Get(w.Context(), key).Result()
		lab.Need(err == nil, "the item could not be put on sale: %v", err)
		w.NameKey(key, name)
		w.Begins(key, value)
	}
	begins(prefix+"sale", "sale")
	begins(w.StockKey()+":"+o.item.SaleID+":"+o.item.Generation, "stock:sale-1:generation-1")
	return o
}

// auditStock compares the orders with the stock.
func (o *onSale) auditStock() lab.Verdict {
	a, err := o.till.Audit(o.w.Context(), o.w.SKU)
	lab.Need(err == nil, "the stock could not be read: %v", err)
	return o.w.Audit(a.Initial, a.Remaining, a.Sold)
}

// outlet is an instance of the shop that sells by one strategy.
type outlet struct {
	on       *onSale
	p        *lab.Process
	strategy string
	wait     time.Duration             // how long a buyer waits for its turn
	work     func(ctx context.Context) // done between reading and writing; may be nil
	service  *stock.Service
}

// open starts an instance. Its version of the subject's strategy uses the subject's guard; any
// other strategy is configured as in the shop. If mixed is set, strategies of several families may
// sell at the same time.
func (on *onSale) open(o *outlet, mixed bool) *outlet {
	w, p := on.w, o.p
	cfg := stock.Config{
		DB: on.db, History: backend.RedisHistory(p.Redis()), Wait: o.wait, Mixed: mixed,
		Turn: time.Minute, // longer than A takes to sell
		Now:  time.Now,    // may be virtual time
	}
	on.sell(&cfg, p.Redis(), w.Subject.Name, o.strategy)
	subject := cfg.Strategies[w.Subject.Name]
	subject.Guard = p.StockGuard(nil)
	cfg.Strategies[w.Subject.Name] = subject
	if o.work != nil {
		cfg.Work = inSection(w, p, o.work)
	}
	o.on, o.service = on, on.serve(cfg)
	return o
}

// inSection wraps work so that the trace shows when p is in the section.
func inSection(w *lab.World, p *lab.Process, work func(ctx context.Context)) stock.Work {
	return func(ctx context.Context, _ string) (after func(), err error) {
		w.Trace(p.Name, lab.Hold, "is in the section")
		leave := func() { w.Trace(p.Name, lab.Release, "leaves the section") }
		work(ctx)
		if ctx.Err() != nil {
			leave()
			return nil, context.Cause(ctx)
		}
		return leave, nil
	}
}

func (o *outlet) buy() error {
	w, who := o.on.w, o.p.Name
	req := stock.Request{SKU: w.SKU, Quantity: 1, Strategy: o.strategy, Owner: who + "/1"}
	_, err := o.service.Deduct(o.p.Life(), req)
	switch {
	case err == nil:
		w.Record(lab.HasSold, who)
		w.Note(who, "has sold a unit")
		return nil
	case errors.Is(err, stock.ErrOtherStrategy):
		w.Record(lab.WasRefused, who)
	}
	w.Note(who, "is told: %s", w.Readable(lab.Brief(err).String()))
	return err
}
