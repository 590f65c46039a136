package lab

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/locks"
	"oversell/internal/stock"
)

// flashSale is the shop's own sale, of package stock, with its orders in a database
// of the cell's own. What is done to Redis by its till is not in the trace.
type flashSale struct {
	w        *World
	db       *gorm.DB
	till     *stock.Service
	services []*stock.Service
}

// openFlashSale puts the item on sale.
func (w *World) openFlashSale(units int64) *flashSale {
	f := &flashSale{w: w}
	w.cleanup(f.close)
	f.openDatabase()
	f.till = f.serve(stock.Config{Redis: w.side})
	item, err := f.till.Put(w.ctx, stock.Item{SKU: w.sku, Initial: units})
	need(err == nil, "the item could not be put on sale: %v", err)
	prefix := "oversell:{" + w.sku + "}:"
	w.lockAt(prefix + "lock:" + w.column.Name)
	w.names.call(w.sku, "item")
	w.names.call(prefix+"claims", "claims")
	w.names.call(item.SaleID, "sale-1")
	w.names.call(item.Generation, "generation-1")
	f.begins(prefix+"sale", "sale")
	f.begins(w.stockKey()+":"+item.SaleID+":"+item.Generation, "stock:sale-1:generation-1")
	return f
}

// openDatabase makes the database.
func (f *flashSale) openDatabase() {
	ctx := f.w.ctx
	server, err := backend.ServeDatabase(ctx, "embedded")
	need(err == nil, "there is no database: %v", err)
	f.w.cleanup(func() { _ = server.Close() }) // after close
	f.db, err = backend.DialDatabase(ctx, server.URL)
	need(err == nil, "there is no database: %v", err)
	err = stock.Migrate(ctx, f.db)
	need(err == nil, "there is no database: %v", err)
}

// begins notes a key as the till has left it.
func (f *flashSale) begins(key, name string) {
	value, err := f.w.side.Get(f.w.ctx, key).Result()
	need(err == nil, "the item could not be put on sale: %v", err)
	f.w.names.call(key, name)
	f.w.begins(key, keyState{kind: "string", words: []string{value}, left: -1})
}

// serve starts a service. What it would log its callers are told as well.
func (f *flashSale) serve(cfg stock.Config) *stock.Service {
	cfg.DB, cfg.Logger = f.db, slog.New(slog.DiscardHandler)
	s := stock.New(cfg)
	f.services = append(f.services, s)
	return s
}

// close ends the services, which look around for as long as they live, and lets go
// of the database.
func (f *flashSale) close() {
	for _, s := range f.services {
		s.Close()
	}
	if f.db == nil {
		return
	}
	if pool, err := f.db.DB(); err == nil {
		_ = pool.Close()
	}
}

// audit has the shop compare its orders with its stock.
func (f *flashSale) audit() verdict {
	a, err := f.till.Audit(f.w.ctx, f.w.sku)
	need(err == nil, "the stock could not be read: %v", err)
	missing := a.Initial - a.Remaining
	switch {
	case a.Oversold > 0:
		return f.w.broke("", "%d of %d units were sold", a.Sold, a.Initial)
	case a.LostUpdates > 0:
		return f.w.broke("", "%d units are sold, and the stock is down by %d", a.Sold, missing)
	case a.Stranded > 0:
		return f.w.broke("", "the stock is down by %d, and %d are sold", missing, a.Sold)
	}
	return holds("%d sold, and the stock is down by %d", a.Sold, missing)
}

// outlet is an instance of the shop, at which buyers buy by one strategy.
type outlet struct {
	f        *flashSale
	p        *Process
	strategy string
	service  *stock.Service
}

// outletConfig is how an outlet is to be.
type outletConfig struct {
	strategy string
	mixed    bool                      // strategies of several families may be at work at once
	wait     time.Duration             // for how long a buyer waits for its turn
	work     func(ctx context.Context) // of a holder, between reading and writing; nil: nothing
}

// outlet starts an instance in a process. The column's strategy has the column's
// guard there; any other one is the shop's.
func (f *flashSale) outlet(p *Process, o outletConfig) *outlet {
	w := f.w
	cfg := stock.Config{DB: f.db, Redis: p.rdb, Wait: o.wait, Mixed: o.mixed}
	var catalog locks.Catalog
	for _, s := range locks.Strategies() {
		if s.Name == w.column.Name || s.Name == o.strategy {
			catalog = append(catalog, s)
		}
	}
	cfg.Use(catalog, locks.Options{Redis: p.rdb, TTL: w.TTL})
	cfg.Guards[w.column.Name] = w.column.stockGuard(p, nil)
	if o.work != nil {
		cfg.Work = p.at(o.work)
	}
	return &outlet{f: f, p: p, strategy: o.strategy, service: f.serve(cfg)}
}

// at is work in the section of a sale.
func (p *Process) at(work func(ctx context.Context)) stock.Work {
	return func(ctx context.Context, _ string) (after func(), err error) {
		p.w.trace.add(p.name, Hold, "is in the section")
		leave := func() { p.w.trace.add(p.name, Release, "leaves the section") }
		work(ctx)
		if ctx.Err() != nil {
			leave()
			return nil, context.Cause(ctx)
		}
		return leave, nil
	}
}

// family is that of the outlet's strategy.
func (o *outlet) family() string { return o.service.Family(o.strategy) }

// buy buys one unit, and returns what the buyer is told.
func (o *outlet) buy() error {
	w, who := o.f.w, o.p.name
	req := stock.Request{SKU: w.sku, Quantity: 1, Strategy: o.strategy, Owner: who + "/1"}
	_, err := o.service.Deduct(o.p.life, req)
	switch {
	case err == nil:
		w.deeds.add(hasSold, who)
		w.Note(who, "has sold a unit")
		return nil
	case errors.Is(err, stock.ErrOtherStrategy):
		w.deeds.add(wasRefused, who)
	}
	w.Note(who, "is told: %s", w.names.value(brief(err)))
	return err
}
