//go:build system

package bench_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/catalog"
)

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
