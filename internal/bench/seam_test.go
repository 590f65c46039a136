//go:build system

package bench_test

import (
	"slices"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/stock/stream"
)

// Processes are killed after the script, and where orders are read and written. Even so, every
// accepted order is written exactly once, and the stock agrees with the orders.
func TestKillsAtSeamsOfAcceptedOrders(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"embedded", "local"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, kind)
			cfg.Strategies, cfg.Seams, cfg.Keys = []string{"lua_stream"}, bench.Seams(), bench.UniqueKeys
			cfg.Conditions = []catalog.Condition{catalog.Crash, catalog.Calm} // their shops write orders
			rows := run(t, cfg)
			checkExpected(t, rows)
			row := rows["lua_stream/crash"]
			if row.Kills == nil {
				t.Fatalf("nothing was killed: %+v", row)
			}
			met := slices.Sorted(slices.Values(row.KilledAt))
			if !slices.Equal(met, []string{stream.SeamRead, string(bench.SeamScript), stream.SeamWritten}) {
				t.Errorf("processes were killed at %v", row.KilledAt)
			}
			if row.Verdict != figures.OK || row.Sold != row.Stock || row.LostUpdates != 0 || row.AcceptedLost != 0 ||
				row.Duplicates != 0 || row.AgreesAfterKill == nil {
				t.Errorf("it came to %+v, %+v", row, *row.Kills)
			}
			if row.Unknown == 0 {
				t.Error("no buyer was cut off")
			}
			if calm := rows["lua_stream/calm"]; calm.Kills != nil || calm.Unknown > 0 {
				t.Errorf("in calm: %+v", calm)
			}
		})
	}
}
