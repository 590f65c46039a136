//go:build system

package bench_test

import (
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/catalog"
)

// onACluster returns a small run with several items on a Redis cluster, with keys on all primaries.
func onACluster(t *testing.T) bench.Config {
	t.Helper()
	cfg := many(t, config(t, "local"))
	cfg.RedisURL, cfg.Requests, cfg.Stock = backendtest.Redis(t, "local:cluster"), 120, 36
	return cfg
}

// Every strategy that uses Redis, and that does not oversell on one server, is also correct on a
// cluster: each item sells its share, every buyer gets a true reply, and no request fails. A library's
// lock may leave buyers waiting; what it sells is exact.
func TestEveryRedisStrategySellsOnACluster(t *testing.T) {
	t.Parallel()
	cfg := onACluster(t)
	for _, s := range catalog.Strategies() {
		alone := s.Needs == catalog.NeedsNothing || s.Needs == catalog.NeedsRueidis
		if alone && !s.InDatabase() && s.Name != "none" && s.Name != "local" { // strategies without Redis
			cfg.Strategies = append(cfg.Strategies, s.Name)
		}
	}
	if len(cfg.Strategies) < 14 {
		t.Errorf("only %v use Redis", cfg.Strategies)
	}
	rows := run(t, cfg)
	for name, row := range rows {
		if row.RedisCommands == nil || *row.RedisCommands <= 0 {
			t.Errorf("%s: the cluster counted %v commands per request", name, row.RedisCommands)
		}
		if row.Undecided {
			if row.Sold == 0 || row.Oversold != 0 || row.LostUpdates != 0 || row.Unknown != 0 {
				t.Errorf("%s: %+v", name, row)
			}
			delete(rows, name)
		}
	}
	checkShares(t, rows)
}
