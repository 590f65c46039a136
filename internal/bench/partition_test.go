//go:build system

package bench_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/stock"
)

// The write of a holder that is cut off from Redis arrives after its lease has expired and others
// have bought: a check before sending does not help, but a check at the stock does.
func TestPartitionDeliversAWriteTooLate(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Conditions = []catalog.Condition{catalog.Partition}
	cfg.Strategies = []string{"v1_setnx", "v6_watchdog", "v9_cohort", "watch"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	if row := rows["v6_watchdog/partition"]; row.Oversold == 0 && row.LostUpdates == 0 {
		t.Errorf("v6_watchdog: %+v", row)
	}
	for _, name := range []string{"v1_setnx", "v9_cohort", "watch"} {
		if row := rows[name+"/partition"]; row.Oversold != 0 || row.LostUpdates != 0 {
			t.Errorf("%s: oversold %d, lost %d", name, row.Oversold, row.LostUpdates)
		}
	}
}

// With the stock in the database only the lock is cut off: its holder writes in time, and the
// unlock comes too late. That breaks only a lock that deletes without checking the owner.
func TestPartitionDelaysAnUnlockWhereTheStockIsElsewhere(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Keeper = stock.InDatabase
	cfg.Conditions = []catalog.Condition{catalog.Partition}
	cfg.Strategies = []string{"v2_ttl", "v3_uuid"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	if row := rows["v2_ttl/partition"]; row.Oversold == 0 && row.LostUpdates == 0 {
		t.Errorf("v2_ttl: %+v", row)
	}
}

func TestPartitionNeedsOneRedis(t *testing.T) {
	for _, url := range []string{"rediss://h:1", "redis://a:1,b:2", "redis+sentinel://a:1/m/0", "redis://:secret@",
		"redis://:secret@h"} {
		cfg := config(t, "embedded")
		cfg.Strategies, cfg.Conditions = []string{"none"}, []catalog.Condition{catalog.Partition}
		if err := cfg.WithDefaults().Check(); err != nil {
			t.Error(err)
		}
		cfg.RedisURL = url
		if err := cfg.WithDefaults().Check(); !errors.Is(err, bench.ErrConfig) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %v without the password", url, err, bench.ErrConfig)
		}
		cfg.RedisURL = "redis://:a,b@h:1" // a comma in the password
		if err := cfg.WithDefaults().Check(); err != nil {
			t.Error(err)
		}
	}
	for name, change := range map[string]func(*bench.Config){
		"one instance": func(c *bench.Config) { c.Instances = 1 },
		"the cache":    func(c *bench.Config) { c.Workload, c.Strategies = catalog.Cache, []string{"v4_lua"} },
		"a failover too": func(c *bench.Config) {
			c.Failovers, c.Conditions = struct{ bench.Failovers }{},
				[]catalog.Condition{catalog.Partition, catalog.Failover}
		},
	} {
		cfg := config(t, "embedded")
		cfg.Strategies, cfg.Conditions = []string{"none"}, []catalog.Condition{catalog.Partition}
		change(&cfg)
		if err := cfg.WithDefaults().Check(); !errors.Is(err, bench.ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, bench.ErrConfig)
		}
	}
}

// interrupter is a Progress that cancels the bench while requests are under way.
type interrupter struct {
	bench.Silent
	cancel context.CancelFunc
}

func (i interrupter) Waiting(_ string, waiting func() int64) {
	go func() {
		for waiting() > 290 { // of 300: some have bought, and a buyer holds the lock
			time.Sleep(time.Millisecond)
		}
		i.cancel()
	}()
}

// Requests under way when the bench is interrupted must not be written after the item was removed.
func TestInterruptedBenchLeavesNothing(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Work, cfg.Stock = 20*time.Millisecond, 300
	cfg.Conditions = []catalog.Condition{catalog.Partition}
	cfg.Strategies = []string{"v6_watchdog"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := bench.Run(ctx, cfg, interrupter{cancel: cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	left, err := backendtest.DialRedis(t, cfg.RedisURL).Keys(t.Context(), "*{bench-*").Result()
	if must(t, err); len(left) > 0 {
		t.Errorf("the bench leaves behind %v", left)
	}
}
