package holdsale

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/proc"
)

const (
	// failoverSpread is how long buyers arrive at least in a row with a failover: some before
	// it, and most after it.
	failoverSpread = 6 * time.Second
	// healTime is how long the set may take until it can fail over again.
	healTime = 30 * time.Second
)

// beforeFailover stops replication to the heir, so that it has nothing of the sale, and returns
// what to do after the row.
func (r *row) beforeFailover(ctx context.Context) (after func() error, err error) {
	if r.cond != catalog.Failover {
		return func() error { return nil }, nil
	}
	restore, err := r.cfg.Failovers.Cut(ctx)
	if err != nil {
		return nil, fmt.Errorf("stopping replication to the heir: %w", err)
	}
	return func() error {
		if ctx.Err() != nil {
			return nil // the set is not used again
		}
		restore()
		limited, cancel := context.WithTimeout(ctx, healTime)
		defer cancel()
		if err := r.cfg.Failovers.Heal(limited); err != nil && ctx.Err() == nil {
			return fmt.Errorf("replacing the killed primary: %w", err)
		}
		return nil
	}, nil
}

// failOver kills the primary when a third of the buyers have come. A failover that has begun
// ends even if the load is over: the row is audited on the new primary.
func (r *row) failOver(ctx context.Context) ([]string, error) {
	if !proc.Sleep(ctx, r.spread/3) {
		return nil, context.Cause(ctx)
	}
	if err := r.cfg.Failovers.Failover(context.WithoutCancel(ctx)); err != nil {
		return nil, err
	}
	return []string{string(fromRedis)}, nil
}
