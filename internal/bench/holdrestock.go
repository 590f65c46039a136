package bench

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"oversell/internal/guard"
)

// restocks is the number of times that units are added while buyers arrive.
const restocks = 4

// added returns the number of units that each restock adds. All restocks together add half of the
// stock. The number is 0 for a stage in Redis: restocks add units to the item's row, and such a
// stage keeps its units elsewhere.
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
		err := r.client.must(ctx, request{
			method: http.MethodPost, path: "/api/items/" + r.sku + "/restock",
			key: fmt.Sprintf("%s-restock-%d", r.sku, i), body: map[string]any{"add": add},
		}, nil)
		if err != nil {
			return fmt.Errorf("adding %d units to %s: %w", add, r.sku, err)
		}
	}
	return nil
}
