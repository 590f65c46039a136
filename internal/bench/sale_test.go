package bench

import (
	"testing"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// One oversold item makes the row oversold. In this test, the unsold units of another item would
// hide the oversold ones if only their sum were checked.
func TestOneOversoldItemIsAnOversoldRow(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*web.Audit)
		want   figures.Verdict
	}{
		{"none", func(*web.Audit) {}, figures.OK},
		{"oversold", func(a *web.Audit) { a.Sold++ }, figures.Oversold},
		{"stranded", func(a *web.Audit) { a.Sold--; a.Orders-- }, figures.Drift},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const n, cold = 5, 3
			r := &run{cfg: Config{Workload: catalog.Deduct, Items: n, Stock: 5 * n, Requests: 100, Wait: time.Minute},
				strategy: catalog.Strategy{Kind: catalog.Guarded}}
			o := outcome{tally: newTally(time.Minute), wall: time.Second, compared: make([]figures.Comparison, n)}
			o.items, o.of = make([]itemTally, n), func(request int) int { return request % n }
			o.begin(time.Now())
			for range n {
				o.audits = append(o.audits, web.Audit{Audit: stock.Audit{Stock: figures.Stock{Initial: 5, Sold: 5,
					Orders: 5}}})
			}
			o.audits[0].Stock = figures.Stock{Initial: 5, Sold: 2, Orders: 2, Remaining: 3} // fewer buyers than units
			tt.change(&o.audits[cold])
			var row report.Row
			r.judgeSale(&row, o)
			if row.Verdict != tt.want {
				t.Fatalf("the verdict is %s, want %s; %+v", row.Verdict, tt.want, row.Items)
			}
			if tt.want != figures.OK && (row.Items.Worst.Number != cold+1 || row.Items.NotOK != 1 ||
				row.Items.Each.Verdicts[cold] != tt.want) {
				t.Errorf("the items are %+v", row.Items)
			}
		})
	}
}

// A killed process accounts for the missing units of its own buyers, and for no others.
func TestKilledBuyersExplainWhatTheyTook(t *testing.T) {
	const dead, alive = 0, 1
	killed, running := new(fleet.Member), new(fleet.Member)
	killed.Killed.Store(true)
	r := &run{shops: &shops{Fleet: fleet.Of(killed, running)}}
	for _, tt := range []struct {
		name   string
		locked bool
		item   int
		cutOff map[int]int64
		lost   int64
		want   bool
	}{
		{"a buyer of another item", true, 1, map[int]int64{dead: 3}, -1, true},
		{"two buyers under a lock", true, 1, map[int]int64{dead: 3}, -2, false},
		{"two buyers without a lock", false, 1, map[int]int64{dead: 3}, -2, true},
		{"more than there were", false, 1, map[int]int64{dead: 3}, -4, false},
		{"the holder that was parked", true, 0, map[int]int64{dead: 3}, -1, false},
		{"a buyer of the first item without a lock", false, 0, map[int]int64{dead: 3}, -1, true},
		{"a shop that runs", true, 1, map[int]int64{alive: 3}, -1, false},
		{"an order that the stock does not show", true, 1, map[int]int64{dead: 3}, 1, false},
	} {
		o := outcome{tally: newTally(time.Minute)}
		o.items = make([]itemTally, 2)
		for range o.items {
			o.audits = append(o.audits, web.Audit{Audit: stock.Audit{Stock: figures.Stock{Initial: 5, Remaining: 5}}})
		}
		o.items[tt.item].unknown = tt.cutOff
		o.audits[tt.item].Remaining += tt.lost
		if got := r.unexplained(o, tt.locked).String(); (got == "") != tt.want {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
