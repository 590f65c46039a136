package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/present"
	"oversell/internal/shop"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// A row sells one item or many. If there are many, each item has its share of the stock, its own
// buyers, its own audit and its own verdict, and the row's verdict is the worst of them.

// maxItemRows is the maximum number of items in all rows of a run, because a report lists each of
// them.
const maxItemRows = 1_000_000

// many reports whether a row has several items.
func (c Config) many() bool { return c.Items > 1 }

// defaultTTL returns the default lease of a lock. With many items, many holders work at once, among
// thousands of buyers who stay when one item is sold out. Lease renewals then have to wait for CPU
// time. With 20,000 buyers on 2 busy cores a renewal took up to 2.8 s, and those that failed first
// had not been waiting for a connection. A lease of 6 s, a shop's default, survives a renewal that
// takes 4 s.
func (c Config) defaultTTL() time.Duration {
	switch {
	case c.many():
		return ItemsTTL
	case c.chaotic():
		return chaosTTL
	}
	return DefaultTTL
}

// checkItems checks the settings of a run with several items.
func (c Config) checkItems() error {
	rows := len(c.Strategies) * len(c.Conditions) * c.Repeat
	switch err := Within(present.Plural(c.Items, "item"), c.Items, 1, maxItems); {
	case err != nil:
		return err
	case !c.many():
		return nil
	case c.Workload != catalog.Deduct:
		return Invalid("%d items with workload %s, which has one; several need %s", c.Items, c.Workload, catalog.Deduct)
	case c.chaotic():
		return Invalid("%d items under condition %s, which sells one", c.Items, catalog.Chaos)
	case len(c.Seams) > 0:
		return Invalid("%d items with seams; processes are killed at seams only with one item", c.Items)
	case c.Stock < int64(c.Items):
		return Invalid("%s of %d items: the stock is that of all items together, and each needs a unit",
			present.Plural(int(c.Stock), "unit"), c.Items)
	case c.Items*rows > maxItemRows:
		return Invalid("%d items in each of %s; allowed: %d in all rows together", c.Items, present.Plural(rows, "row"),
			maxItemRows)
	}
	return nil
}

// spareFiles is the number of open files kept in reserve for connections to an embedded Redis in
// this process. If that Redis is so slow that commands time out, the shops open new connections
// before this process has closed the old ones. Once miniredis fails to accept a connection, it
// accepts no more.
const spareFiles = 1500 // at most a tenth of the open-file limit; see room

// room returns the number of requests that can be in flight within the open-file limits of this
// process and of each shop. Each shop also needs some files for itself.
func (c Config) room() int {
	files := shop.OpenFiles()
	return max(1, min(files-c.filesBeside()-min(spareFiles, files/10), c.shops()*(files/2), MaxInFlight))
}

// takesTurns reports whether the requests of a burst go over fewer connections than there are
// requests.
func (c Config) takesTurns() bool {
	return c.Rate == 0 && c.InFlight > 0 && c.InFlight < c.Requests
}

// spread says which item each buyer wants.
func (c Config) spread() *Spread { return NewSpread(max(1, c.Items), c.Skew, c.Seed) }

// buyer returns the number of the buyer who sends a request. One buyer sends both requests of a pair.
func (c Config) buyer(request int) int {
	if c.Keys == PairedKeys {
		return request / 2
	}
	return request
}

// item returns the item that a request is for.
func (r *run) item(request int) int { return r.spread.Of(r.cfg.buyer(request)) }

// firstTurns returns the number of holders of a row's first item that have work to do if the guard
// holds. Most buyers want that item, and faults are injected into its holders.
func (c Config) firstTurns() int64 {
	if c.Workload == catalog.Cache {
		return c.turns()
	}
	s := c.spread()
	return min(s.Units(c.Stock, 0), int64(s.Share(0)*float64(c.Requests)))
}

// skus returns the names of the items of a row. A single item has a name without a number.
func (c Config) skus(row int) []string {
	name := fmt.Sprintf("bench-%s-%d", c.ID, row)
	if !c.many() {
		return []string{name}
	}
	all := make([]string, c.Items)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", name, i+1)
	}
	return all
}

// auditsAtOnce is the number of items that are audited at once after a row.
const auditsAtOnce = 16

// eachItem calls f for n items, at most atOnce of them at a time, and returns the first error.
func eachItem(
	ctx context.Context, p Progress, doing string, n, atOnce int, f func(ctx context.Context, item int) error,
) error {
	var left atomic.Int64
	left.Store(int64(n))
	if n > 1 {
		p.Waiting(doing, left.Load)
	}
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for item := range n {
		if each.Err() != nil {
			break
		}
		g.Go(func() error {
			defer left.Add(-1)
			return f(each, item)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// offer puts all items on sale.
func (r *run) offer(ctx context.Context) error {
	// One after the other: transactions that insert at the same time can deadlock in MariaDB.
	shop, keeper := r.admin.at(r.survivor()), r.cfg.keeper(r.strategy, r.cond)
	return eachItem(ctx, r.progress, "putting items on sale", len(r.skus), 1,
		func(ctx context.Context, item int) error {
			return shop.put(ctx, r.skus[item], r.spread.Units(r.cfg.Stock, item), keeper, r.strategy.Name)
		})
}

// audit audits all items once all accepted orders are written, and then compares the orders with
// what buyers were told. It audits the first item before the others, so that the first audit's count
// of Redis commands leaves out those of the others.
func (r *run) audit(ctx context.Context, o *outcome) (err error) {
	o.audits = make([]web.Audit, len(r.skus))
	if o.audits[0], o.settling, err = r.settle(ctx, r.skus[0]); err != nil {
		return err
	}
	err = eachItem(ctx, r.progress, "auditing items", len(r.skus)-1, auditsAtOnce,
		func(ctx context.Context, n int) (err error) {
			o.audits[n+1], _, err = r.settle(ctx, r.skus[n+1])
			return err
		})
	if err != nil {
		return err
	}
	o.settled = time.Now()
	return r.compare(ctx, o)
}

// compare compares what the buyers of each item were told with the orders of its sale. For the
// cache there is nothing to compare.
func (r *run) compare(ctx context.Context, o *outcome) error {
	o.compared = make([]figures.Comparison, len(r.skus))
	if r.cfg.Workload != catalog.Deduct {
		return nil
	}
	all := o.compared
	for _, a := range o.answers {
		all[o.of(a.request)].Answer(figures.Answer{Order: a.order, Quantity: a.quantity, Asked: askedFor,
			Key: r.keyHash(a.request), Accepted: a.accepted})
	}
	for _, request := range o.cutOff {
		all[o.of(request)].CutOff(r.keyHash(request))
	}
	return eachItem(ctx, r.progress, "reading orders of items", len(r.skus), auditsAtOnce,
		func(ctx context.Context, item int) error {
			// Orders may have been written since the audit: at most one for each request.
			most, shop := o.audits[item].Orders+o.sent, r.admin.at(r.survivor())
			if err := shop.eachOrder(ctx, r.skus[item], o.audits[item].SaleID, most, func(o stock.ListedOrder) {
				all[item].Order(figures.Written{Order: o.ID, Quantity: o.Quantity, Key: o.KeyHash})
			}); err != nil {
				return fmt.Errorf("comparing the orders with what buyers were told: %w", err)
			}
			return nil
		})
}

// sale judges the sale of an item.
func (r *run) sale(o outcome, item int) (report.Audit, report.Item) {
	found, told, seen := o.audits[item].Stock, o.compared[item].Told(), &o.items[item]
	if o.unkept > 0 {
		told.Unreported = 0 // unknown
	}
	unresolved := r.notKilled(seen.unknown)
	a := report.NewAudit(found, told, unresolved, seen.soldOut+seen.failed)
	a.DurableP99 = o.audits[item].DurableP99
	i := report.Item{
		Number: item + 1, Stock: found.Initial, Sold: a.Sold, Oversold: a.Oversold, LostUpdates: a.LostUpdates,
		Stranded: a.Stranded, Undersold: a.Undersold,
		SoldOut: seen.soldOut, Failed: seen.failed, MaxHolders: figures.MaxHolders(seen.holders),
		Untrue: a.AcknowledgedMissing + a.Unreported + a.AcceptedLost + a.Duplicates,
	}
	for _, n := range seen.unknown {
		i.Unknown += n
	}
	i.Buyers = seen.served + seen.soldOut + seen.failed + i.Unknown
	if seen.servedAt > 0 {
		i.Throughput = float64(seen.served) / seen.servedAt.Seconds()
	}
	i.Verdict = figures.Run{
		Stock: found, Told: told, SoldOut: seen.soldOut, GaveUp: seen.failed, Unresolved: unresolved,
		Idle: o.start.Add(o.wall).Sub(seen.left), StuckAfter: r.cfg.stuckAfter(),
	}.Verdict()
	return a, i
}

// unexplained returns a sentence about an item with a drift that the killed process cannot have
// caused, or an empty one. Each buyer whose connection ended with that process may have taken a unit
// without an order. If the strategy locks, this applies to at most one buyer for each item, and
// to none for the first item, whose holder was killed before it took anything.
func (r *run) unexplained(o outcome, locked bool) message.Message {
	for item := range o.audits {
		var most int64
		for target, missing := range o.items[item].unknown {
			if r.killed(target) {
				most += missing
			}
		}
		if locked {
			most = min(most, 1)
		}
		if locked && item == 0 {
			most = 0
		}
		if lost := o.audits[item].Stock.LostUpdates(); lost > 0 || -lost > most {
			return message.Newf("item %d has %d lost updates, and killed buyers explain %d to 0", item+1, lost, -most)
		}
	}
	return message.Message{}
}

// judgeSale fills in the sums over all items, and the worst of their verdicts.
func (r *run) judgeSale(row *report.Row, o outcome) {
	row.Verdict = figures.OK
	all := make([]report.Item, len(o.audits))
	for i := range o.audits {
		audit, item := r.sale(o, i)
		row.Audit.Add(audit)
		if item.Verdict.Rank() > row.Verdict.Rank() {
			row.Verdict = item.Verdict
		}
		all[i] = item
	}
	row.Uncompared = o.unkept
	if o.held != nil && row.Sold > 0 {
		row.ConnectionTime = new(figures.Milliseconds(*o.held) / float64(row.Sold))
	}
	row.Throughput = float64(row.Sold) / o.wall.Seconds()
	if r.cfg.many() {
		row.Items = report.NewItems(all)
	}
}

// drained fills in the time when the last order behind the sale was written, and the processes that
// were killed.
func (r *run) drained(row *report.Row, o outcome) {
	if r.strategy.Kind != catalog.Streamed {
		return
	}
	row.Drain = figures.Milliseconds(o.settled.Sub(o.start.Add(o.wall)))
	agree := row.LostUpdates == 0
	for _, found := range o.audits {
		agree = agree && found.Unwritten == 0
	}
	row.Kills = r.faults.atSeams(o.settled, agree)
}

// settle audits an item until all its accepted orders are written. It returns the last audit, and the
// number of audits that did not fail. If Redis was unreachable for a while, the shop's clients may
// need a moment to reconnect.
func (r *run) settle(ctx context.Context, sku string) (found web.Audit, audits int64, err error) {
	away := r.cond == catalog.Partition || r.cond == catalog.Failover || r.cond == catalog.Chaos
	for start, pause := time.Now(), minDrainPause; ; pause = min(2*pause, maxDrainPause) {
		found, err = r.admin.at(r.survivor()).audit(ctx, sku)
		if err == nil {
			audits++
		}
		limit, wait := time.Duration(0), settleTime/50
		switch {
		case err != nil && away:
			limit = settleTime
		case err == nil && found.Unwritten > 0:
			limit, wait = drainTime, pause
		}
		if time.Since(start) >= limit || guard.Sleep(ctx, wait) != nil {
			return found, audits, err
		}
	}
}

// keyHash returns the hash of a request's idempotency key, as in the listed orders.
func (r *run) keyHash(request int) string { return stock.KeyHash(r.cfg.key(request)) }
