package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/locks"
)

// Failovers is a Redis with replicas, which can be made to fail and one of them,
// the heir, to take over, again and again.
type Failovers interface {
	// Cut keeps all that is written from its return on from the heir, until restore
	// is called. Another replica goes on hearing of it.
	Cut(ctx context.Context) (restore func(), err error)
	// Failover kills the primary, and returns when the heir is in its place.
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

	// leastFailover is for how long there have to be buyers, so that the failover
	// takes place while there are.
	leastFailover = 4 * time.Second

	// failoverPatience is how long the holder that was overtaken is kept from
	// going on once the shop has found the new primary, for somebody else to buy
	// from it. With a lock that holds nobody does.
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

// failOver has the first holder that parks overtaken. Where nobody is to be let in
// there is none, and the failover takes place all the same: so that it can be seen
// whether that lets anybody in. A failover that has begun goes on when the buyers
// are gone: the row is audited on the new primary.
func (r *run) failOver(ctx, buyers context.Context) error {
	if e, _ := r.strategy.Expect(r.expectation(r.cfg.keeper(r.strategy, r.cond))); e.NobodyIn {
		return r.failOverWithout(ctx, buyers)
	}
	return r.fleet.strike(buyers, func(i *instance) error {
		return errors.Join(r.overtake(ctx, buyers), i.tell(order{GoOn: true}))
	})
}

// failOverWithout kills the primary when a quarter of the time in which buyers come
// is over. A holder, should there be one, goes on as if nothing had happened.
func (r *run) failOverWithout(ctx, buyers context.Context) error {
	let := make(chan error, 1)
	go func() { let <- r.fleet.strike(buyers, func(i *instance) error { return i.tell(order{GoOn: true}) }) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	wait := max(time.Second, r.cfg.Duration/4)
	err := errNotStruck
	if until(buyers, timer, time.Now().Add(wait)) {
		err = r.replacePrimary(ctx, r.cfg.Duration-wait)
	}
	if failed := <-let; !errors.Is(failed, errNotStruck) {
		err = errors.Join(err, failed)
	}
	return err
}

// replacePrimary kills the primary and waits for the heir to take over. That fails if
// fewer than a second is left of the time in which buyers come: a row without buyers
// after the failover shows nothing.
func (r *run) replacePrimary(ctx context.Context, buyersComeFor time.Duration) error {
	began := time.Now()
	if err := r.cfg.Failovers.Failover(ctx); err != nil {
		return err
	}
	if took := time.Since(began); took > buyersComeFor-time.Second {
		return fmt.Errorf("the failover took %v, for about as long as buyers came: -duration must be longer", took.Round(time.Millisecond))
	}
	return nil
}

// overtake kills the primary while a holder waits, has the heir take over, and
// waits until somebody has bought after that.
func (r *run) overtake(ctx, buyers context.Context) error {
	if err := r.replacePrimary(ctx, r.cfg.Duration); err != nil {
		return err
	}
	sold := int64(-1)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for end := time.Now().Add(settleTime); time.Now().Before(end); {
		if !until(buyers, timer, time.Now().Add(failoverPatience/40)) {
			return nil // the row is over
		}
		found, err := r.admin.audit(buyers, r.survivor(), r.sku)
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

// beforeFailover keeps what the row writes from the heir, and returns what is
// to be done after the row.
func (r *run) beforeFailover(ctx context.Context) (after func() error, err error) {
	if r.cond != locks.Failover {
		return func() error { return nil }, nil
	}
	restore, err := r.cfg.Failovers.Cut(ctx)
	if err != nil {
		return nil, fmt.Errorf("cutting off the heir: %w", err)
	}
	return func() error {
		// The set is of no use to an interrupted bench: nobody waits for it to heal.
		if ctx.Err() != nil {
			return nil
		}
		restore()
		limited, cancel := context.WithTimeout(ctx, healTime)
		defer cancel()
		if err := r.cfg.Failovers.Heal(limited); err != nil && ctx.Err() == nil {
			return fmt.Errorf("putting a replica in the place of the primary that was killed: %w", err)
		}
		return nil
	}, nil
}

// healTime bounds the time until the set can fail over again.
const healTime = 30 * time.Second
