//go:build system

package bench_test

import (
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// eachKind runs f for all strategies of the workload on embedded backends, and for one of each kind
// on real servers.
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
			if row.Failed != 0 || row.Unknown != 0 {
				t.Errorf("%s: requests failed for a reason of ours: %v", name, row.Reasons)
			}
			if row.Verdict == figures.OK && (row.Sold != 60 || row.LostUpdates != 0 || row.SoldOut != 240) {
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

// One strategy for each possible outcome of a condition. These rows mostly sleep, so they run in
// parallel.
func TestConditionsAreAsTheCatalogSays(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"none", "v4_lua", "v6_watchdog"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			cfg := config(t, "embedded")
			cfg.TTL = shortTTL
			cfg.Conditions = []catalog.Condition{catalog.Slow, catalog.Crash, catalog.Pause}
			cfg.Strategies = []string{strategy}
			checkExpected(t, run(t, cfg))
		})
	}
}

// A late unlock deletes another holder's lock with v2, but not with v3.
func TestLateIsAsTheCatalogSays(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.TTL = shortTTL
	cfg.Conditions = []catalog.Condition{catalog.Late}
	cfg.Strategies = []string{"v2_ttl", "v3_uuid"}
	checkExpected(t, run(t, cfg))
}

// A pair of requests with one key makes one order, even if the stock is unguarded.
func TestPairsOfKeysMakeOneOrder(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Requests, cfg.Stock, cfg.Keys = 200, 1000, bench.PairedKeys
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

// Faults are injected into the loads of a cold key, too.
func TestFaultsHitLoads(t *testing.T) {
	cfg := config(t, "embedded")
	cfg.Workload, cfg.Strategies = catalog.Cache, []string{"v6_watchdog"}
	cfg.Conditions = []catalog.Condition{catalog.Crash, catalog.Pause}
	checkExpected(t, run(t, cfg))
}

func TestWithoutTheSecondLookEverybodyLoads(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Workload, cfg.SecondLook = catalog.Cache, false
	cfg.Requests, cfg.Wait = 50, time.Minute // each of them may load, after all others before it
	cfg.Strategies = []string{"v6_watchdog"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	for name, row := range rows {
		// How many readers come before the first value is stored depends on the machine.
		if row.DBLoads < 10 {
			t.Errorf("%s: %d loads by 50 readers, want far more than the 1 with it", name, row.DBLoads)
		}
	}
}
