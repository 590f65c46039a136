package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"oversell/internal/bench/client"
	"oversell/internal/guard"
)

// restocks is how many times units are added while buyers come.
const restocks = 4

// added returns the number of units that each restock adds: half of the stock is added that way.
// It is 0 for a stage in Redis: its units are not in the item's row, which is where restocks add
// units.
func (r *holdRow) added() int64 {
	if r.stage.InRedis {
		return 0
	}
	return r.cfg.Stock / (2 * restocks)
}

// restock adds units at times that are evenly spread over the load. If a request gets no answer,
// it is sent again with its key to the next shop.
func (r *holdRow) restock(ctx context.Context) error {
	add := r.added()
	if add == 0 {
		return nil
	}
	start := time.Now()
	for i := range restocks {
		at := start.Add(time.Duration(i+1) * r.spread / (restocks + 1))
		if err := guard.Sleep(ctx, time.Until(at)); err != nil {
			return err
		}
		a := r.client.Ask(ctx, client.Request{
			Method: http.MethodPost, Path: "/api/items/" + r.sku + "/restock",
			Key: fmt.Sprintf("%s-restock-%d", r.sku, i), Body: map[string]any{"add": add},
		}, nil)
		if a.Err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if a.Err != nil {
			return fmt.Errorf("adding %d units to %s: %w", add, r.sku, a.Err)
		}
	}
	return nil
}
