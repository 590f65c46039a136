package holds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/stock"
)

// stuck is a stage whose sweeps of some items wait for a lock.
type stuck struct {
	Stage
	mu    sync.Mutex
	freed bool
	swept map[string]time.Time // when the last sweep of each item ended
}

func (s *stuck) Sweep(ctx context.Context, sku string, _ int) (int, error) {
	s.mu.Lock()
	waits := strings.HasPrefix(sku, "stuck-") && !s.freed
	s.mu.Unlock()
	if waits {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swept[sku] = time.Now()
	return 0, nil
}

// A round goes on after an item whose sweep fails, and logs the failure.
func TestRoundGoesOnAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := &stuck{swept: make(map[string]time.Time)}
		var log strings.Builder
		s := &Service{log: slog.New(slog.NewTextHandler(&log, nil))}
		s.cfg.Stages = map[string]Stage{"h2_status": stage, "h1_counter": failing{}}
		s.sales.Store("0", "h1_counter")
		s.sales.Store("1", "h2_status")
		r := &sweeper{Service: s, room: make(chan struct{}, maxSlow), slow: make(map[string]bool)}
		r.round(t.Context(), []stock.Item{{SKU: "a-first", SaleID: "0"}, {SKU: "healthy", SaleID: "1"},
			{SKU: "z-last", SaleID: "0"}})
		if _, swept := stage.swept["healthy"]; !swept {
			t.Error("the item between two that cannot be swept was left out")
		}
		for _, sku := range []string{"a-first", "z-last"} {
			if _, failed := r.slow[sku]; !failed || !strings.Contains(log.String(), "sku="+sku) {
				t.Errorf("the round did not sweep %s, or does not say that it failed: %s", sku, &log)
			}
		}
	})
}

// failing is a stage whose sweeps fail.
type failing struct{ Stage }

func (failing) Sweep(context.Context, string, int) (int, error) {
	return 0, errors.New("the backend is away")
}

// Each item with locked rows delays the other items only once, for as long as a round waits for it.
// When its rows are unlocked, it is swept like the others. A sale that is over is forgotten.
func TestStuckItemsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locked = 3 * maxSlow
		stage := &stuck{swept: make(map[string]time.Time)}
		s := &Service{log: slog.New(slog.NewTextHandler(io.Discard, nil))}
		s.cfg.Stages = map[string]Stage{"h3_claim": stage}
		items := []stock.Item{{SKU: "healthy", SaleID: "0"}}
		for i := range locked {
			items = append(items, stock.Item{SKU: fmt.Sprintf("stuck-%d", i), SaleID: "0"})
		}
		s.sales.Store("0", "h3_claim")
		ctx, cancel := context.WithCancel(t.Context())
		defer s.background.Wait()
		defer cancel()
		r := &sweeper{Service: s, room: make(chan struct{}, maxSlow), slow: make(map[string]bool)}

		r.round(ctx, items)
		synctest.Wait()
		if waited := time.Since(stage.swept["healthy"]); waited > locked*slowSweep+time.Second {
			t.Errorf("the first round took %v", waited)
		}
		for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(time.Second) {
			began := time.Now()
			r.round(ctx, items)
			synctest.Wait()
			if took := time.Since(began); took > slowSweep || stage.swept["healthy"].Before(began) {
				t.Fatalf("a round took %v, and swept the item that is not locked at %v; it began at %v",
					took, stage.swept["healthy"], began)
			}
		}

		stage.mu.Lock()
		stage.freed = true
		stage.mu.Unlock()
		time.Sleep(sweepTimeout)
		for range 2 {
			r.round(ctx, items)
			synctest.Wait()
		}
		if len(stage.swept) != len(items) || len(r.slow) != 0 {
			t.Errorf("%d of %d items were swept, %d count as slow", len(stage.swept), len(items), len(r.slow))
		}
		r.round(ctx, nil)
		if stage, known := s.sales.Load("0"); known {
			t.Errorf("the stage of a sale that is over is still remembered: %v", stage)
		}
	})
}
