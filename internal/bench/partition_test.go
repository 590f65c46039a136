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
)

// A shop is cut off from Redis by a relay, which works only with one Redis without TLS.
func TestPartitionNeedsOneRedis(t *testing.T) {
	for url, relayed := range map[string]bool{
		"redis://h:1": true, "redis://:a,b@h:1": true, // the password contains a comma
		"rediss://h:1": false, "redis://a:1,b:2": false, "redis+sentinel://a:1/m/0": false, "redis://:secret@h": false,
	} {
		cfg := against()
		cfg.Instances, cfg.RedisURL, cfg.Conditions = 2, url, []catalog.Condition{catalog.Partition}
		err := cfg.WithDefaults().Check()
		if relayed && err != nil || !relayed && (!errors.Is(err, bench.ErrConfig) ||
			strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v; want that it can be relayed: %v", url, err, relayed)
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
