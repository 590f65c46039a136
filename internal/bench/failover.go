package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"oversell/internal/locks"
)

// Failovers is a Redis with a replica, of which the one can be made to fail and
// the other to take over, again and again.
type Failovers interface {
	// Cut keeps all that is written from its return on from the replica, until
	// restore is called.
	Cut(ctx context.Context) (restore func(), err error)
	// Failover kills the primary, and returns when the replica is in its place.
	Failover(ctx context.Context) error
	// Heal puts a new replica in the place of what was killed, if anything was.
	Heal(ctx context.Context) error
}

const (
	// failoverTTL is the least lease of a row with a failover: more than that
	// takes, so that a holder does not hear of its loss while nobody can hear
	// of anything.
	failoverTTL = 10 * time.Second

	// failoverTime is over how long the buyers of such a row are spread. Those
	// who come while there is no Redis are turned away, and there must be others
	// after them.
	failoverTime = 10 * time.Second

	// failoverPatience is how long the holder that was overtaken is kept from
	// going on, for somebody else to buy from the new primary. With a lock that
	// holds nobody does.
	failoverPatience = 2 * time.Second
)

// forCondition is the config of a row under the condition.
func (c Config) forCondition(condition locks.Condition) Config {
	if condition != locks.Failover {
		return c
	}
	c.TTL = max(c.TTL, failoverTTL)
	if c.Rate == 0 {
		seconds := int(failoverTime / time.Second)
		c.Rate, c.Duration = max(1, c.Requests/seconds), failoverTime
	}
	return c
}

// failover has the first holder that parks wait while the primary is killed, the
// replica takes over and somebody else buys, and then go on. It returns when ctx
// ends, which is when the row is over.
func (r *run) failover(ctx context.Context) error {
	first := make(chan struct{}, 1)
	var g errgroup.Group
	for _, i := range r.fleet.members {
		g.Go(func() error {
			select {
			case <-i.parked:
			case <-ctx.Done():
				return nil
			}
			var err error
			select {
			case first <- struct{}{}:
				err = r.overtake(ctx)
			default:
			}
			return errors.Join(err, i.tell(order{GoOn: true}))
		})
	}
	err := g.Wait()
	if len(first) == 0 {
		err = errors.Join(err, errNotStruck)
	}
	return err
}

// overtake fails over, and waits until somebody has bought after that.
func (r *run) overtake(ctx context.Context) error {
	if err := r.cfg.Failovers.Failover(ctx); err != nil {
		return err
	}
	sold := int64(-1)
	for end := time.Now().Add(failoverPatience); time.Now().Before(end); {
		if err := sleep(ctx, failoverPatience/40); err != nil {
			return nil // the row is over
		}
		found, err := r.admin.audit(ctx, r.survivor(), r.sku)
		switch {
		case err != nil: // the shop has not found the new primary yet
		case sold < 0:
			sold = found.Sold
		case found.Sold > sold:
			return nil
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// beforeFailover keeps what the row writes from the replica, and returns what is
// to be done after the row.
func (r *run) beforeFailover(ctx context.Context) (after func() error, err error) {
	if r.cond != locks.Failover {
		return func() error { return nil }, nil
	}
	restore, err := r.cfg.Failovers.Cut(ctx)
	if err != nil {
		return nil, fmt.Errorf("cutting off the replica: %w", err)
	}
	return func() error {
		restore()
		// Also when the row was interrupted: the bench tidies up by that Redis.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTime)
		defer cancel()
		if err := r.cfg.Failovers.Heal(ctx); err != nil {
			return fmt.Errorf("putting a replica in the place of the primary that was killed: %w", err)
		}
		return nil
	}, nil
}

// healTime bounds the time until the set can fail over again.
const healTime = 30 * time.Second
