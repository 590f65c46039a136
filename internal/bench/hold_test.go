//go:build system

package bench_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// holdRows runs a small hold workload on backends of the given kind. All rows must be as the
// catalog expects. The rows mostly wait for holds to expire and to settle, so the tests run in
// parallel.
func holdRows(t *testing.T, kind string, stages []string, conditions ...catalog.Condition) []report.Row {
	t.Helper()
	return holdRowsOn(t, bench.Config{
		Strategies: stages, Conditions: conditions, RedisURL: backendtest.Redis(t, kind),
		DBURL: backendtest.Database(t, kind),
	})
}

// holdRowsOn is like holdRows, but takes a config.
func holdRowsOn(t *testing.T, cfg bench.Config) []report.Row {
	t.Helper()
	cfg.Workload, cfg.Requests, cfg.Stock, cfg.TTL = catalog.Hold, 150, 80, time.Second
	cfg.Command = new(backendtest.Processes).Command(healthy)
	rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
	must(t, err)
	if want := len(cfg.Strategies) * len(cfg.Conditions); len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	for _, row := range rows {
		if !row.Expected {
			t.Errorf("%s under %s: %s; %+v, %+v", row.Strategy, row.Condition, row.Differs, row, *row.Held)
		}
	}
	return rows
}

// checkSound checks the promises of h3_claim: every unit is sold once, every payment is accounted
// for, and stock, orders and payments agree in the end.
func checkSound(t *testing.T, rows []report.Row) {
	t.Helper()
	for _, row := range rows {
		name := fmt.Sprintf("%s under %s", row.Strategy, row.Condition)
		if row.Verdict != figures.OK || row.Sold != row.Stock || row.Stranded != 0 || row.ChargedWithoutOrder != 0 ||
			row.Unknown != 0 && row.Condition != catalog.Crash {
			t.Errorf("%s: %s, sold %d of %d, stranded %d, charged without order %d, unknown %d",
				name, row.Verdict, row.Sold, row.Stock, row.Stranded, row.ChargedWithoutOrder, row.Unknown)
		}
		if row.Captures != row.Sold+row.Refunds {
			t.Errorf("%s: %d captures for %d orders and %d refunds", name, row.Captures, row.Sold, row.Refunds)
		}
		if row.AgreesAfter == nil {
			t.Errorf("%s: nothing agreed before the sell-out", name)
		}
		if (row.Condition == catalog.Late || row.Condition == catalog.Partition) && row.Refunds == 0 {
			t.Errorf("%s: no payment was refunded", name)
		}
		for _, at := range bench.HoldSeams() {
			if row.Condition == catalog.Crash && !slices.Contains(row.Seams, string(at)) {
				t.Errorf("%s: no shop was killed at seam %s, only at %v", name, at, row.Seams)
			}
		}
		if cut := []string{"database", "redis", "provider"}; row.Condition == catalog.Partition &&
			!slices.Equal(row.Seams, cut) {
			t.Errorf("%s: a shop was cut off from %v, want %v", name, row.Seams, cut)
		}
	}
}

// Even if shops are late, killed, stopped or cut off, h3_claim sells each unit once and loses no
// unit, and every capture leads to one order or one refund.
func TestClaimIsSound(t *testing.T) {
	t.Parallel()
	for kind, conditions := range map[string][]catalog.Condition{
		"embedded": {catalog.Late, catalog.Pause},
		"local":    {catalog.Crash, catalog.Partition},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			checkSound(t, holdRows(t, kind, []string{"h3_claim"}, conditions...))
		})
	}
}

// A shop that was cut off writes after the hold has expired, and a stage that does not check the
// hold then sells the unit twice. A stage with its units in Redis does so even if the database is a
// file, from which no shop can be cut off.
func TestHoldPartition(t *testing.T) {
	t.Parallel()
	row := holdRows(t, "embedded", []string{"h1_counter"}, catalog.Partition)[0]
	if cut := []string{"redis", "provider"}; !slices.Equal(row.Seams, cut) || row.Oversold == 0 {
		t.Errorf("a shop was cut off from %v, want %v; it sold %d of %d", row.Seams, cut, row.Sold, row.Stock)
	}
}

// A replica that takes over has no data of the sale, so a counter in Redis starts with all units
// again.
func TestHoldFailover(t *testing.T) {
	t.Parallel()
	set := backendtest.Failovers(t)
	rows := holdRowsOn(t, bench.Config{
		Strategies: []string{"h1_counter"}, Conditions: []catalog.Condition{catalog.Failover},
		RedisURL: set.URL(), DBURL: backendtest.Database(t, "embedded"), Failovers: set,
	})
	if rows[0].Oversold == 0 {
		t.Errorf("h1_counter has sold %d of %d", rows[0].Sold, rows[0].Stock)
	}
}

// A stage that checks first and writes later sells a unit twice, or loses one, if the shop is
// delayed, killed or stopped in between.
func TestNaiveStagesBreak(t *testing.T) {
	t.Parallel()
	for stage, conditions := range map[string][]catalog.Condition{
		"h1_counter": {catalog.Late, catalog.Crash}, "h2_status": {catalog.Crash, catalog.Pause},
	} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			for _, row := range holdRows(t, "embedded", []string{stage}, conditions...) {
				if row.Oversold == 0 && row.Stranded == 0 {
					t.Errorf("under %s: verdict %s", row.Condition, row.Verdict)
				}
			}
		})
	}
}
