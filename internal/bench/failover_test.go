//go:build system

package bench_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/stock"
)

// failingOver returns the config of an open load on a Redis with replicas and sentinels.
func failingOver(t *testing.T) bench.Config {
	t.Helper()
	set := backendtest.Failovers(t)
	cfg := config(t, "embedded")
	cfg.RedisURL, cfg.Failovers = set.URL(), set
	cfg.Rate, cfg.Duration, cfg.Stock = 100, 6*time.Second, 150
	cfg.Conditions = []catalog.Condition{catalog.Failover}
	return cfg
}

// runFailovers is like run, for failovers. On a busy machine, the sentinels may need longer than
// the buyers keep arriving. Such rows are run again with buyers arriving for longer.
func runFailovers(t *testing.T, cfg bench.Config) map[string]report.Row {
	t.Helper()
	rows := make(map[string]report.Row)
	for tries := 1; ; tries++ {
		maps.Copy(rows, run(t, cfg))
		var slow []string
		for _, row := range rows {
			if strings.Contains(row.Differs, "the failover ended after") {
				slow = append(slow, row.Strategy)
			}
		}
		if len(slow) == 0 || tries == 3 {
			return rows
		}
		t.Logf("again, for %v: %v", 2*cfg.Duration, slow)
		cfg.Strategies = slow
		cfg.Duration *= 2
	}
}

// A replica that takes over has neither the lock nor the last sales. So a second holder gets the
// lock, and only strategies that check at the write do not oversell. A stock in Redis is rebuilt
// before units are sold from it again.
func TestFailover(t *testing.T) {
	t.Parallel()
	cfg := failingOver(t)
	cfg.Strategies = []string{"v6_watchdog", "v9_cohort", "lua_atomic"}
	rows := runFailovers(t, cfg)
	checkExpected(t, rows)
	for name, row := range rows {
		if row.RedisCommands != nil || row.Rate != 100 ||
			!slices.Contains([]string{"6s", "12s", "24s"}, row.Duration) || row.TTL == "" {
			t.Errorf("%s: commands %v, rate %d for %q, ttl %q", name, row.RedisCommands, row.Rate, row.Duration,
				row.TTL)
		}
	}
	if row := rows["v6_watchdog/failover"]; row.Keeper != stock.InDatabase || row.Oversold == 0 &&
		row.LostUpdates == 0 {
		t.Errorf("v6_watchdog: the stock in %s, oversold %d, lost %d", row.Keeper, row.Oversold, row.LostUpdates)
	}
	if row := rows["lua_atomic/failover"]; row.Keeper != stock.InRedis || row.Sold > 150 {
		t.Errorf("lua_atomic: the stock in %s, %d sold of 150", row.Keeper, row.Sold)
	}
	if row := rows["v9_cohort/failover"]; row.Oversold != 0 || row.LostUpdates != 0 {
		t.Errorf("v9_cohort: oversold %d, lost %d", row.Oversold, row.LostUpdates)
	}
}

// Under a failover, buyers arrive one after the other, and leases are long. The manifest of a run
// with only failovers says both.
func TestManifestOfFailoversSaysWhatIsRun(t *testing.T) {
	cfg := config(t, "embedded")
	cfg.Strategies, cfg.Conditions = []string{"v6_watchdog"}, []catalog.Condition{catalog.Failover}
	m := cfg.Manifest("redis", "db")
	if m.Rate != 30 || m.Duration != "10s" || m.Requests != 300 || m.TTL != "10s" || m.InFlight == 0 {
		t.Errorf("%+v", m)
	}
	cfg.Conditions = append(cfg.Conditions, catalog.Calm)
	if m := cfg.Manifest("redis", "db"); m.Rate != 0 || m.TTL != "1s" {
		t.Errorf("with another condition: %+v", m)
	}
}

// failsOver is a Redis whose failover never ends. The run is interrupted while it waits for the
// end.
type failsOver struct {
	interrupt context.CancelFunc
	healed    atomic.Bool
}

func (f *failsOver) Cut(context.Context) error {
	return nil
}

func (f *failsOver) Failover(ctx context.Context) error {
	f.interrupt()
	<-ctx.Done()
	return ctx.Err()
}

func (f *failsOver) Heal(context.Context) error {
	f.healed.Store(true)
	return nil
}

// An interrupted run does not restart the killed Redis, and still removes its rows from the
// database.
func TestInterruptedFailoverHealsNothing(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Rate, cfg.Duration, cfg.Stock = 100, 6*time.Second, 150
	cfg.Strategies, cfg.Conditions = []string{"v6_watchdog"}, []catalog.Condition{catalog.Failover}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	set := &failsOver{interrupt: cancel}
	cfg.Failovers = set
	if _, err := bench.Run(ctx, cfg, bench.Silent{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if set.healed.Load() {
		t.Error("the set was healed")
	}
	for _, table := range []any{&stock.Item{}, &stock.Order{}} {
		var left int64
		if err := backendtest.DialDatabase(t, cfg.DBURL).Model(table).Count(&left).Error; err != nil || left > 0 {
			t.Errorf("%d of %T are left, %v", left, table, err)
		}
	}
}
