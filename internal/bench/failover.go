package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/guard"
)

// Failovers is a Redis with replicas. It can fail over repeatedly, each time to the replica that is
// called the heir.
type Failovers interface {
	// Cut stops replication to the heir. Another replica stays connected.
	Cut(ctx context.Context) error
	// Failover kills the primary, and returns when the heir has been promoted.
	Failover(ctx context.Context) error
	// Heal replaces the killed server with a new replica, and lets the heir replicate again.
	Heal(ctx context.Context) error
}

const (
	// failoverTTL is the shortest lease of a row with a failover: longer than the failover,
	// so that the lease does not expire while there is no Redis.
	failoverTTL = 10 * time.Second

	// failoverTime is the time over which buyers arrive in such a row. Buyers who arrive while
	// there is no Redis are refused, so others must arrive after the failover.
	failoverTime = 10 * time.Second

	// leastFailover is the shortest allowed time over which buyers arrive. It ensures that they
	// arrive throughout the failover.
	leastFailover = 4 * time.Second

	// failoverPatience is how long the overtaken holder stays parked after the shop has found the
	// new primary, so that another buyer can buy. If the lock holds, no other buyer can.
	failoverPatience = 2 * time.Second
)

// forCondition returns the config for a row under the condition.
func (c Config) forCondition(condition catalog.Condition) Config {
	if condition != catalog.Failover {
		return c
	}
	c.TTL = max(c.TTL, failoverTTL)
	if c.Rate == 0 {
		seconds := int(failoverTime / time.Second)
		c.Rate, c.Duration = max(1, c.Requests/seconds), failoverTime
	}
	return c
}

// failOver fails over while the first holder is parked. A failover that has begun is completed even
// when the buyers are gone: the row is audited on the new primary.
func (r *run) failOver(ctx, buyers context.Context) error {
	began := time.Now() // the first buyers arrive now
	return r.shops.inject(buyers, func(m *fleet.Member) error {
		return errors.Join(r.overtake(ctx, buyers, began), m.Resume())
	})
}

// overtake fails over while a holder is parked, and then waits until another buyer has bought. It
// fails if less than a second is left in which buyers arrive: a row without buyers after the
// failover shows nothing. The first buyers arrived at the time began.
func (r *run) overtake(ctx, buyers context.Context, began time.Time) error {
	if err := r.cfg.Failovers.Failover(ctx); err != nil {
		return err
	}
	if took := time.Since(began); took > r.cfg.Duration-time.Second {
		return fmt.Errorf("the failover ended after %v, when few or no buyers were still to come: "+
			"-duration must be longer", took.Round(time.Millisecond))
	}
	sold := int64(-1)
	for end := time.Now().Add(settleTime); time.Now().Before(end); {
		if guard.Sleep(buyers, failoverPatience/40) != nil {
			return nil // the row is over
		}
		found, err := r.admin.at(r.survivor()).audit(buyers, r.skus[0])
		switch {
		case err != nil: // the shop has not found the new primary yet
		case sold < 0:
			sold = found.Sold
			end = time.Now().Add(failoverPatience)
		case found.Sold > sold:
			return nil
		}
	}
	return nil
}

// beforeFailover stops replication to the heir, so that the heir gets no data of a row under the
// failover condition. The returned function must be called after the row: it replaces the killed
// servers. Under other conditions both functions do nothing.
func beforeFailover(ctx context.Context, set Failovers, cond catalog.Condition) (after func() error, err error) {
	if cond != catalog.Failover {
		return func() error { return nil }, nil
	}
	if err := set.Cut(ctx); err != nil {
		return nil, fmt.Errorf("stopping replication to the heir: %w", err)
	}
	return func() error {
		// An interrupted bench does not use the set again, so it does not wait.
		if ctx.Err() != nil {
			return nil
		}
		limited, cancel := context.WithTimeout(ctx, healTime)
		defer cancel()
		if err := set.Heal(limited); err != nil && ctx.Err() == nil {
			return fmt.Errorf("replacing the killed primary: %w", err)
		}
		return nil
	}, nil
}

// healTime limits the time until the set can fail over again.
const healTime = 30 * time.Second
