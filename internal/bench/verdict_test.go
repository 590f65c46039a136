//go:build system

package bench_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/lockservers"
	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
	"oversell/internal/stock"
)

// eachKind runs f for all strategies of the workload on embedded backends, and for one strategy of
// each kind on real servers.
func eachKind(t *testing.T, w catalog.Workload, f func(t *testing.T, cfg bench.Config)) {
	t.Helper()
	t.Parallel()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		cfg := config(t, "embedded")
		cfg.Workload, cfg.Strategies = w, bench.DefaultStrategies(w)
		f(t, cfg)
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		backendtest.Need(t, "redis-server", "mariadbd")
		cfg := config(t, "local")
		cfg.Workload, cfg.Strategies = w, []string{"none", "local", "v6_watchdog"}
		f(t, cfg)
	})
}

func TestCalmIsAsTheCatalogSays(t *testing.T) {
	eachKind(t, catalog.Deduct, func(t *testing.T, cfg bench.Config) {
		rows := run(t, cfg)
		checkExpected(t, rows)
		for name, row := range rows {
			// A shop on a machine that stalls may wait too long for Redis.
			late := row.Reasons["backend"]
			if row.Failed+row.Unknown != late {
				t.Errorf("%s: requests failed for a reason of ours: %v", name, row.Reasons)
			}
			if row.Verdict == figures.OK && (row.Sold != 60 || row.LostUpdates != 0 || row.SoldOut+late != 240) {
				t.Errorf("%s: ok, but sold %d, lost %d, refused %d", name, row.Sold, row.LostUpdates, row.SoldOut)
			}
			if row.P50 <= 0 || row.P50 > row.P95 || row.P95 > row.P99 || row.P99 > row.Max || row.Max > row.Wall {
				t.Errorf("%s: latencies %v %v %v %v of %v ms", name, row.P50, row.P95, row.P99, row.Max, row.Wall)
			}
			if row.RedisCommands == nil || *row.RedisCommands <= 0 || row.Throughput <= 0 {
				t.Errorf("%s: no commands a request, or %v sold a second", name, row.Throughput)
			}
		}
		if n := rows["none/calm"].MaxHolders; n < 3 {
			t.Errorf("none: %d holders at once", n)
		}
		if n := rows["local/calm"].MaxHolders; n != 2 {
			t.Errorf("local: %d holders at once, want one an instance", n)
		}
	})
}

// Faults have the outcome that the catalog expects: a strategy breaks exactly under the conditions
// that the catalog names. These rows mostly sleep, so they run in parallel.
func TestFaultsAreAsTheCatalogSays(t *testing.T) {
	t.Parallel()
	type conditions = []catalog.Condition
	const slow, late, crash, pause, cut = catalog.Slow, catalog.Late, catalog.Crash, catalog.Pause, catalog.Partition
	unfenced := func(cfg *bench.Config) { cfg.Unfenced = true }
	inDatabase := func(cfg *bench.Config) { cfg.Keeper = stock.InDatabase }
	unfencedInDatabase := func(cfg *bench.Config) { cfg.Keeper, cfg.Unfenced = stock.InDatabase, true }
	loads := func(cfg *bench.Config) { cfg.Workload = catalog.Cache }
	elsewhere := func(cfg *bench.Config) { cfg.Servers = lockServers(t) }
	for name, tt := range map[string]struct {
		strategies string
		conditions conditions
		change     func(cfg *bench.Config)
	}{
		// one strategy for each possible outcome of a condition
		"no lock":        {"none", conditions{slow, crash, pause}, nil},
		"a lease":        {"v4_lua", conditions{slow, crash, pause}, nil},
		"a watchdog":     {"v6_watchdog", conditions{slow, crash, pause}, nil},
		"another's lock": {"v2_ttl v3_uuid", conditions{late}, nil}, // v2 deletes a lock that it no longer has
		"loads":          {"v6_watchdog", conditions{crash, pause}, loads},
		"other servers":  {"redlock etcd", conditions{crash, pause}, elsewhere},
		// The holder writes after its lease has expired, unless the stock checks its token. v7 is
		// not listed: it has no token, so it behaves as v8 does without the check.
		"a fence in Redis":          {"v9_cohort", conditions{pause}, nil},
		"no fence in Redis":         {"v9_cohort", conditions{pause}, unfenced},
		"a fence in the database":   {"v8_fenced", conditions{pause}, inDatabase},
		"no fence in the database":  {"v8_fenced", conditions{pause}, unfencedInDatabase},
		"a write that is cut off":   {"v1_setnx v6_watchdog v9_cohort watch", conditions{cut}, nil},
		"an unlock that is cut off": {"v2_ttl v3_uuid", conditions{cut}, inDatabase},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, "embedded")
			cfg.Strategies, cfg.Conditions = strings.Fields(tt.strategies), tt.conditions
			if tt.change != nil {
				tt.change(&cfg)
			}
			checkExpected(t, run(t, cfg))
		})
	}
}

// Two requests with the same key make one order, even if the stock is unguarded.
func TestPairsOfKeysMakeOneOrder(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Requests, cfg.Stock, cfg.Keys, cfg.Wait = 200, 1000, bench.PairedKeys, time.Minute
	cfg.Strategies = []string{"none", "v6_watchdog"}
	for name, row := range run(t, cfg) {
		if row.Sold != 100 || row.Duplicates != 0 || row.Served != 200 {
			t.Errorf("%s: %d orders, %d duplicates, %d of 200 served", name, row.Sold, row.Duplicates, row.Served)
		}
	}
}

func TestColdKeyIsLoadedAsOftenAsTheCatalogSays(t *testing.T) {
	eachKind(t, catalog.Cache, func(t *testing.T, cfg bench.Config) {
		cfg.Strategies = []string{"none", "local", "v6_watchdog"}
		rows := run(t, cfg)
		checkExpected(t, rows)
		for name, row := range rows {
			switch name {
			case "none/calm":
				if row.DBLoads < 10 {
					t.Errorf("none: %d loads, want many", row.DBLoads)
				}
			case "local/calm":
				if row.DBLoads != 2 || len(row.Loads) != 2 {
					t.Errorf("local: loads %v, want one an instance", row.Loads)
				}
			default:
				if row.DBLoads != 1 {
					t.Errorf("%s: %d loads, want 1", name, row.DBLoads)
				}
			}
			if row.Served != int64(cfg.Requests) {
				t.Errorf("%s: %d of %d readers served", name, row.Served, cfg.Requests)
			}
		}
	})
}

func TestWithoutTheSecondLookEverybodyLoads(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Workload, cfg.SecondLook = catalog.Cache, false
	cfg.Requests, cfg.Wait = 50, time.Minute // each reader may wait for the loads of all others
	cfg.Strategies = []string{"v6_watchdog"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	for name, row := range rows {
		// The number of readers that come before the first value is stored depends on the machine.
		if row.DBLoads < 10 {
			t.Errorf("%s: %d loads by 50 readers, want far more than the 1 with it", name, row.DBLoads)
		}
	}
}

// Requests that are under way at an interruption must not write anything after the item was
// removed.
func TestInterruptedBenchLeavesNothing(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Work, cfg.Stock = 20*time.Millisecond, 300
	cfg.Conditions = []catalog.Condition{catalog.Partition}
	cfg.Strategies = []string{"v6_watchdog"}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	stop := &stopper{at: "v6_watchdog/partition", done: 10, cancel: cancel}
	if _, err := bench.Run(ctx, cfg, stop); !errors.Is(err, errStop) {
		t.Errorf("Run: %v", err)
	}
	left, err := backendtest.DialRedis(t, cfg.RedisURL).Keys(t.Context(), "*{bench-*").Result()
	if must(t, err); len(left) > 0 {
		t.Errorf("the bench leaves behind %v", left)
	}
}

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
