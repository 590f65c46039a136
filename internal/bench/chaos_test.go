//go:build system

package bench_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/guard"
)

// chaotic returns the config of a short sale under these faults, on backends of the given kind.
func chaotic(t *testing.T, kind string, p *backendtest.Processes, faults ...bench.ChaosKind) bench.Config {
	t.Helper()
	if kind == "local" {
		backendtest.Need(t, "redis-server", "mariadb-install-db")
	}
	servers, err := bench.ServeChaos(t.Context(), kind, kind)
	must(t, err)
	t.Cleanup(func() {
		must(t, servers.Close())
		p.CheckEnded(t)
	})
	return bench.Config{
		Conditions: []catalog.Condition{catalog.Chaos}, Workload: catalog.Deduct, Instances: 2, Keys: bench.NoKeys,
		Rate: 40, Duration: 4 * time.Second, Stock: 200, TTL: time.Second, Seed: 11, Faults: faults,
		Policy: &guard.Line{Delay: 2 * time.Millisecond},
		Chaos:  servers, RedisURL: servers.RedisURL, DBURL: servers.DBURL, Command: p.Command(healthy),
	}
}

// A short sale under faults has the outcome that the catalog expects, on both kinds of backends.
// The time to recover depends on the machine, and is not checked.
func TestSaleInChaos(t *testing.T) {
	t.Parallel()
	for kind, faults := range map[string][]bench.ChaosKind{
		"embedded": {"shop-kill", "redis-disconnected"},
		"local":    {"shop-kill", "redis-kill", "db-client-kill"},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := new(backendtest.Processes)
			cfg := chaotic(t, kind, p, faults...)
			cfg.Strategies = []string{map[string]string{"embedded": "lua_stream", "local": "v9_cohort"}[kind]}
			rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
			must(t, err)
			row := rows[0]
			if row.Drain < 0 {
				t.Errorf("the last order was written %v ms after the last reply", row.Drain)
			}
			found := row.Chaos
			if found == nil || found.Seed != 11 || len(found.Faults) == 0 || row.Condition != catalog.Chaos ||
				row.Open == nil {
				t.Fatalf("%+v", row)
			}
			if found.Missing != 0 || found.Duplicates != 0 || found.Oversold != 0 || found.Foreign != 0 ||
				!found.SoldOut {
				t.Errorf("%+v", found)
			}
			if found.Sold+found.Stranded != cfg.Stock || row.Sold != found.Sold ||
				found.Acknowledged < found.Sold-found.Unreported-row.Unknown-row.Failed {
				t.Errorf("%d units, sold %d: %+v", cfg.Stock, row.Sold, found)
			}
			injected := 0
			for _, d := range found.Faults {
				if !slices.Contains(faults, bench.ChaosKind(d.Kind)) || d.Error != "" || !d.Skipped && d.Again == nil {
					t.Errorf("%+v", d)
				}
				if !d.Skipped {
					injected++
				}
			}
			if injected == 0 || found.Acknowledged < 100 {
				t.Errorf("%d faults were injected and %d orders acknowledged, want at least 1 and 100", injected,
					found.Acknowledged)
			}
		})
	}
}

// A restarted shop is a new process. A stopped shop replies when it resumes.
func TestShopsAreRestartedAndStoppedInChaos(t *testing.T) {
	t.Parallel()
	for _, kind := range []bench.ChaosKind{"shop-restart", "shop-stop"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			p := new(backendtest.Processes)
			cfg := chaotic(t, "embedded", p, kind)
			cfg.Strategies = []string{"lua_batch"}
			rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
			must(t, err)
			row := rows[0]
			injected := slices.DeleteFunc(row.Chaos.Faults, func(d report.Fault) bool { return d.Skipped })
			if len(injected) == 0 || injected[0].Error != "" {
				t.Fatalf("%+v", row.Chaos)
			}
			started := len(p.All())
			if kind == "shop-restart" && started != cfg.Instances+len(injected) {
				t.Errorf("%d processes for %d shops and %d restarts", started, cfg.Instances, len(injected))
			}
			if stopped := 1000 * injected[0].For; kind == "shop-stop" && row.Max < stopped/2 {
				t.Errorf("a shop was stopped for %.0f ms, and no buyer waited longer than %.0f ms", stopped, row.Max)
			}
		})
	}
}

// The bench finds the orders that a shop has lost after it reported them to buyers.
func TestLostOrdersAreFoundInChaos(t *testing.T) {
	t.Parallel()
	p := new(backendtest.Processes)
	cfg := chaotic(t, "embedded", p, "redis-replies-late")
	cfg.Command, cfg.Strategies = p.Command(forgets), []string{"v6_watchdog"}
	cfg.Duration, cfg.Stock = 3*time.Second, 120
	rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
	must(t, err)
	found := rows[0].Chaos
	if found.Missing == 0 || len(found.MissingIDs) == 0 || rows[0].Expected ||
		!strings.Contains(rows[0].Differs, "acknowledged_missing") {
		t.Errorf("expected: %v, %s; %+v", rows[0].Expected, rows[0].Differs, found)
	}
}
