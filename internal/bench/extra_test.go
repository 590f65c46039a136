//go:build system

package bench_test

import (
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// A strategy in the database stays correct when a holder is killed in the middle of a transaction.
func TestDatabaseHoldsWhenAHolderIsKilled(t *testing.T) {
	t.Parallel()
	backendtest.Need(t, "redis-server", "mariadbd")
	cfg := config(t, "local")
	cfg.Strategies = []string{"sql_conditional", "sql_version", "sql_for_update", "sql_get_lock", "sql_units"}
	cfg.Conditions = []catalog.Condition{catalog.Crash}
	rows := run(t, cfg)
	checkExpected(t, rows)
	for name, row := range rows {
		// The time cannot exceed that of all connections of both pools during the whole run.
		if most := 64 * row.Wall / float64(row.Sold); fleet.LiveWords &&
			(row.ConnectionTime == nil || *row.ConnectionTime <= 0 || *row.ConnectionTime > most) {
			t.Errorf("%s: connections for %v ms a sale, want some and at most %.1f", name, row.ConnectionTime, most)
		}
	}
}

// lockServers runs the nodes of Redlock and an etcd until the end of the test.
func lockServers(t *testing.T) lockservers.Addresses {
	t.Helper()
	specs := lockservers.Specs{Redlock: "embedded", Etcd: "local"}
	servers, err := lockservers.New(t.Context(), specs, catalog.NeedsNodes, catalog.NeedsEtcd)
	must(t, err)
	t.Cleanup(func() { _ = servers.Close() })
	at, _, err := servers.Open(t.Context(), catalog.NeedsNodes, catalog.NeedsEtcd)
	must(t, err)
	return at
}
