package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"oversell/internal/backend"
	"oversell/internal/locks"
	"oversell/internal/netfault"
	"oversell/internal/stock"
)

// checkPartition returns an error where there is no single connection to Redis
// that could be cut.
func (c Config) checkPartition() error {
	if c.Workload != locks.Deduct {
		return fmt.Errorf("%w: condition %s goes with workload %s", ErrConfig, locks.Partition, locks.Deduct)
	}
	if slices.Contains(c.Conditions, locks.Failover) {
		return fmt.Errorf("%w: conditions %s and %s in one run: the one needs a single Redis, the other a set with sentinels",
			ErrConfig, locks.Partition, locks.Failover)
	}
	if c.Wait < c.long() {
		return fmt.Errorf("%w: a wait of %v; condition %s keeps buyers waiting for %v, with a ttl of %v", ErrConfig, c.Wait, locks.Partition, c.long(), c.TTL)
	}
	if c.RedisURL == "" {
		return nil // not served yet
	}
	_, err := single(c.RedisURL)
	return err
}

// single returns the host:port in the URL of a single Redis. The error does not
// show the URL: it may hold a password.
func single(redisURL string) (string, error) {
	addr, err := backend.SingleAddr(redisURL)
	if errors.Is(err, backend.ErrSpec) {
		return "", fmt.Errorf("%w: %w", ErrConfig, err) // that has nothing to do with the condition
	}
	if err != nil {
		return "", fmt.Errorf("%w: condition %s needs a Redis whose connections can be led through a relay (embedded, local or redis://host:port): %w",
			ErrConfig, locks.Partition, err)
	}
	return addr, nil
}

// relayed leads to the Redis at the URL through a relay. The caller closes it.
func relayed(redisURL string) (through string, link *netfault.Relay, err error) {
	addr, err := single(redisURL)
	if err != nil {
		return "", nil, err
	}
	if link, err = netfault.Start(addr); err != nil {
		return "", nil, fmt.Errorf("leading an instance's connections to Redis through a relay: %w", err)
	}
	if through, err = backend.WithAddr(redisURL, link.Addr); err != nil {
		return "", nil, errors.Join(fmt.Errorf("leading an instance's connections to Redis through a relay: %w", err), link.Close())
	}
	return through, link, nil
}

// partition cuts the instance off, whose holder is parked, and lets the holder go on.
//
// With the stock in the database it is only the unlock that comes too late, as under
// Late; and as there, those who come in elsewhere meanwhile are still at work when it
// arrives, and a little longer.
func (r *run) partition(ctx context.Context, i *instance) error {
	if r.cfg.keeper(r.strategy, r.cond) == stock.InDatabase && r.strategy.Kind == locks.Guarded {
		until := time.Now().Add(r.cfg.long() + r.cfg.linger())
		for _, other := range r.fleet.members {
			if other == i {
				continue // what one process hands on within itself needs no Redis
			}
			if err := other.tell(order{Until: &until}); err != nil {
				return err
			}
		}
	}
	return i.cutOff(ctx, r.cfg.long())
}

// cutOff lets nothing through between one process and Redis for the given time.
// Its parked holder goes on meanwhile, and what it sends arrives in the end.
func (i *instance) cutOff(ctx context.Context, d time.Duration) error {
	i.cut.Store(true)
	i.link.Hole()
	defer i.link.Restore()
	if err := i.tell(order{GoOn: true}); err != nil {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}
