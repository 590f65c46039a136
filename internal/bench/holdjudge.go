package bench

import (
	"slices"
	"time"

	"oversell/internal/backend"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
	"oversell/internal/stock"
)

// judge computes the figures from what was observed, and compares them with the expectation.
func (r *holdRow) judge(o observed) report.Row {
	row := report.Row{
		Asked: report.Asked{
			Key:    report.Key{Strategy: r.stage.Name, Condition: r.cond, Workload: catalog.Hold},
			Keeper: stock.InHolds, Requests: r.cfg.Requests, Stock: r.cfg.Stock,
		},
		Load: report.Load{Wall: figures.Milliseconds(o.wall), Reasons: make(map[string]int64)},
		Held: &report.Held{
			Captures: int64(o.books.Captured), Refunds: int64(o.books.Refunded),
			ChargedWithoutOrder: int64(o.books.ChargedWithoutOrder + o.books.OrdersWithoutCharge),
			SellableAfter:       o.sellable, AgreesAfter: o.agrees, Seams: o.faults,
		},
	}
	waits := countBought(&row, o.bought)
	row.P50, row.P95 = Quantile(waits, 0.50), Quantile(waits, 0.95)
	row.P99, row.Max = Quantile(waits, 0.99), Quantile(waits, 1)
	told := compareBought(slices.Concat(o.bought, o.rest), o.orders)
	refusals := row.SoldOut + int64(len(o.rest))
	row.Audit = report.NewAudit(o.stock, told, 0, refusals)
	row.Throughput = float64(row.Served) / o.wall.Seconds()
	row.Verdict = figures.Run{
		Stock: o.stock, Told: told, SoldOut: refusals, GaveUp: row.Failed, Charged: row.ChargedWithoutOrder,
	}.Verdict()
	r.expect(&row, o)
	return row
}

// expect compares the row with the catalog's expectation.
func (r *holdRow) expect(row *report.Row, o observed) {
	_, relayed := backend.DatabaseAddr(r.cfg.DBURL)
	e, known := r.stage.Expect(catalog.HoldCase{
		Condition: r.cond, Cancels: cancels(r.cfg.holdSeams(r.stage)), InFile: relayed != nil,
	})
	switch {
	case o.noFault != nil:
		row.Differ(message.Newf("not every fault was injected: %v", o.noFault))
	case o.stock.Initial != r.cfg.Stock:
		row.Differ(message.Newf("the sale has %d units; %d were put on sale and added", o.stock.Initial, r.cfg.Stock))
	case !known:
		row.Differ(message.Text("the catalog has no expectation for this case"))
	default:
		row.Differ(e.Check(catalog.Outcome{Verdict: row.Verdict}))
	}
	row.Expected = row.Differs == ""
}

// countBought counts the outcomes of the load, and returns the times that buyers waited for
// answers.
func countBought(row *report.Row, bought []purchase) (waits []time.Duration) {
	for _, p := range bought {
		if p.hold.ID != "" {
			row.Holds++
		}
		if p.fate != unlearned {
			waits = append(waits, p.latency)
		}
		switch p.fate {
		case gotOrder:
			row.Served++
		case soldOut:
			row.SoldOut++
		case unlearned:
			row.Unknown++
			row.Reasons[p.code]++
		case tooLate:
			row.Reasons[p.code]++
		case failed:
			row.Failed++
			row.Reasons[p.code]++
		}
	}
	return waits
}

// compareBought compares what the buyers were told with the orders. An order has the id of its hold.
func compareBought(bought []purchase, orders []stock.ListedOrder) figures.Told {
	var c figures.Comparison
	for _, p := range bought {
		switch {
		case p.fate == gotOrder:
			c.Answer(figures.Answer{Order: p.order, Quantity: 1, Asked: 1, Key: p.hold.ID})
		case p.fate == unlearned && p.asked:
			c.CutOff(p.hold.ID)
		}
	}
	for _, o := range orders {
		c.Order(figures.Written{Order: o.ID, Quantity: o.Quantity, Key: o.ID})
	}
	return c.Told()
}
