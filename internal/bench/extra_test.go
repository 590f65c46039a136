//go:build system

package bench_test

import (
	"fmt"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/stock"
)

// A holder that is killed in the middle of a transaction does not break a strategy in the database.
func TestDatabaseHoldsWhenAHolderIsKilled(t *testing.T) {
	t.Parallel()
	backendtest.Need(t, "redis-server", "mariadbd")
	cfg := config(t, "local")
	cfg.TTL = shortTTL
	cfg.Strategies = []string{"sql_conditional", "sql_version", "sql_for_update", "sql_get_lock", "sql_units"}
	cfg.Conditions = []catalog.Condition{catalog.Crash}
	rows := run(t, cfg)
	checkExpected(t, rows)
	for name, row := range rows {
		if row.Oversold != 0 || row.LostUpdates != 0 || row.Keeper != stock.InDatabase {
			t.Errorf("%s: oversold %d, lost %d, stock in %s", name, row.Oversold, row.LostUpdates, row.Keeper)
		}
		// It cannot be more than all connections of both pools for the whole run.
		if most := 64 * row.Wall / float64(row.Sold); fleet.LiveWords &&
			(row.ConnectionTime == nil || *row.ConnectionTime <= 0 || *row.ConnectionTime > most) {
			t.Errorf("%s: connections for %v ms a sale, want some and at most %.1f", name, row.ConnectionTime, most)
		}
	}
}

// A process that is stopped for longer than its lease writes too late, unless the stock checks its
// token, in Redis or in the database.
func TestFenceHoldsWhatALeaseLoses(t *testing.T) {
	t.Parallel()
	// v7 has no token: it is v8 unfenced.
	for strategy, keeper := range map[string]stock.Backend{"v9_cohort": stock.InRedis, "v8_fenced": stock.InDatabase} {
		for _, unfenced := range []bool{false, true} {
			t.Run(fmt.Sprintf("stock in %s, unfenced %v", keeper, unfenced), func(t *testing.T) {
				t.Parallel()
				cfg := config(t, "embedded")
				cfg.TTL, cfg.Keeper, cfg.Unfenced = shortTTL, keeper, unfenced
				cfg.Conditions = []catalog.Condition{catalog.Pause}
				cfg.Strategies = []string{strategy}
				rows := run(t, cfg)
				checkExpected(t, rows)
				for name, row := range rows {
					if broken := row.Verdict != figures.OK; broken != unfenced {
						t.Errorf("%s came out as %+v", name, row)
					}
				}
			})
		}
	}
}

// lockServers serves the nodes of redlock and an etcd for the length of the test.
func lockServers(t *testing.T) lockservers.Addresses {
	t.Helper()
	specs := lockservers.Specs{Redlock: "embedded", Etcd: "local"}
	servers, err := lockservers.New(t.Context(), specs, catalog.NeedsNodes, catalog.NeedsEtcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = servers.Close() })
	at, _, err := servers.Open(t.Context(), catalog.NeedsNodes, catalog.NeedsEtcd)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestLocksOnOtherServers(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Servers = lockServers(t)
	cfg.Conditions = []catalog.Condition{catalog.Crash, catalog.Pause}
	cfg.Strategies = []string{"redlock", "etcd"}
	checkExpected(t, run(t, cfg))
}
