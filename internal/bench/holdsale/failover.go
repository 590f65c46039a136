package holdsale

import (
	"context"
	"oversell/internal/guard"
	"time"
)

// failoverSpread is how long buyers arrive at least in a row with a failover: some before it,
// and most after it.
const failoverSpread = 6 * time.Second

// failOver kills the primary when a third of the buyers have come. A failover that has begun
// ends even if the load is over: the row is audited on the new primary.
func (r *row) failOver(ctx context.Context) ([]string, error) {
	if guard.Sleep(ctx, r.spread/3) != nil {
		return nil, context.Cause(ctx)
	}
	if err := r.cfg.Failovers.Failover(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return []string{fromRedis}, nil
}
