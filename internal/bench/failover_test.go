package bench_test

import (
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
	"oversell/internal/bench"
	"oversell/internal/locks"
	"oversell/internal/stock"
)

// A replica that takes over has not heard of the lock, nor of what was taken from
// the stock: a lease lets a second holder in, a stock in Redis comes back, and only
// what is checked where it is written holds.
func TestFailover(t *testing.T) {
	t.Parallel()
	backendtest.Need(t, "redis-server")
	set, err := local.StartSentinels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	cfg := config(t, "embedded")
	cfg.RedisURL, cfg.Failovers = set.URL(), set
	cfg.Rate, cfg.Duration, cfg.Stock = 100, 6*time.Second, 150
	cfg.Conditions = []locks.Condition{locks.Failover}
	cfg.Strategies = []string{"v6_watchdog", "v8_fenced", "lua_atomic", "sql_conditional"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	for name, keeper := range map[string]stock.Keeper{"v6_watchdog": stock.InDatabase, "lua_atomic": stock.InRedis} {
		if row := rows[name+"/failover"]; row.Keeper != keeper || row.Oversold == 0 && row.LostUpdates == 0 {
			t.Errorf("%s: the stock in %s, oversold %d, lost %d", name, row.Keeper, row.Oversold, row.LostUpdates)
		}
	}
	for _, name := range []string{"v8_fenced", "sql_conditional"} {
		if row := rows[name+"/failover"]; row.Oversold != 0 || row.LostUpdates != 0 {
			t.Errorf("%s: oversold %d, lost %d", name, row.Oversold, row.LostUpdates)
		}
	}
}

func TestFailoverNeedsASetOfItsOwn(t *testing.T) {
	cfg := config(t, "embedded")
	cfg.Strategies, cfg.Conditions = []string{"none"}, []locks.Condition{locks.Failover}
	if err := cfg.WithDefaults().Check(); err == nil {
		t.Error("a Redis that cannot fail over is let pass")
	}
	cfg.Failovers = struct{ bench.Failovers }{}
	if err := cfg.WithDefaults().Check(); err != nil {
		t.Error(err)
	}
	cfg.Workload, cfg.Strategies = locks.Cache, []string{"v4_lua"}
	if err := cfg.WithDefaults().Check(); err == nil {
		t.Error("a failover of the cache is let pass")
	}
}
