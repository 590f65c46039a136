//go:build system

package bench_test

import (
	"testing"
	"time"

	"oversell/internal/backend"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// many returns cfg with several items, some of which many buyers want.
func many(t *testing.T, cfg bench.Config) bench.Config {
	t.Helper()
	skew, err := bench.ParseSkew("zipf:1.1")
	must(t, err)
	cfg.Items, cfg.Skew, cfg.Seed = 6, skew, 3
	return cfg
}

func sum(list []int64) (n int64) {
	for _, one := range list {
		n += one
	}
	return n
}

// Every item sells its own share of the stock, and the row contains the sums over the items.
func TestEachItemSellsItsShare(t *testing.T) {
	t.Parallel()
	cfg := many(t, config(t, "embedded"))
	cfg.Strategies = []string{"v6_watchdog"}
	checkShares(t, run(t, cfg))
}

// checkShares fails the test unless each item of many has sold its share in each row.
func checkShares(t *testing.T, rows map[string]report.Row) {
	t.Helper()
	for name, row := range rows {
		if !row.Expected || row.Verdict != figures.OK || row.Failed != 0 || row.Unknown != 0 || row.Oversold != 0 ||
			row.Items == nil || row.Items.NotOK != 0 {
			t.Errorf("%s: %+v", name, row)
			continue
		}
		each := row.Items.Each
		if len(each.Sold) != 6 || sum(each.Sold) != row.Sold || sum(each.Stock) != row.Stock ||
			sum(each.Buyers) != int64(row.Requests) ||
			sum(each.SoldOut) != row.SoldOut {
			t.Errorf("%s: the items do not add up to the row: %+v", name, each)
		}
		for i, sold := range each.Sold {
			if want := min(each.Stock[i], each.Buyers[i]); sold != want {
				t.Errorf("%s: item %d sold %d of %d units to %d buyers", name, i+1, sold, each.Stock[i],
					each.Buyers[i])
			}
		}
	}
}

// The requests of a burst may share connections; every request still has an outcome.
func TestBurstTakesTurnsOverFewConnections(t *testing.T) {
	t.Parallel()
	cfg := many(t, config(t, "embedded"))
	cfg.Strategies, cfg.InFlight = []string{"v6_watchdog"}, 16
	row := run(t, cfg)["v6_watchdog/calm"]
	if !row.Expected || row.Failed != 0 || row.Unknown != 0 || sum(row.Items.Each.Buyers) != 300 {
		t.Errorf("it is %+v", row)
	}
}

// Faults are injected into a holder of the first item, which most buyers want. The same process may
// have holders of other items, which the fault affects as well.
func TestFaultsHitTheFirstItem(t *testing.T) {
	t.Parallel()
	cfg := many(t, config(t, "embedded"))
	cfg.TTL = 2 * time.Second // a stall of a busy machine is shorter
	// A client that is waiting for a reply when its process is stopped must still get the reply
	// afterwards.
	url, err := backend.WithReadTimeout(cfg.RedisURL, time.Minute)
	must(t, err)
	cfg.RedisURL = url
	cfg.Strategies, cfg.Conditions = []string{"v6_watchdog"},
		[]catalog.Condition{catalog.Crash, catalog.Pause}
	rows := run(t, cfg)
	for name, row := range rows {
		// A failed request of the stopped process may have taken a unit, which is returned only
		// after all buyers have left.
		late := row.Condition == catalog.Pause && row.Failed > 0 && row.Verdict == figures.Undersold
		if !row.Expected && !late {
			t.Errorf("%s: %s; %+v", name, row.Differs, row)
		}
	}
	if paused := rows["v6_watchdog/pause"]; paused.Verdict == figures.Oversold && paused.Items.Each.Oversold[0] == 0 {
		t.Errorf("the first item was not oversold: %+v", paused.Items)
	}
}
