package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"oversell/internal/backend"
	"oversell/internal/bench/chaos"
	"oversell/internal/catalog"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/stock"
)

// checkPartition returns an error if there is no single Redis to cut off.
func (c Config) checkPartition() error {
	if c.Workload != catalog.Deduct {
		return Invalid("condition %s needs workload %s", catalog.Partition, catalog.Deduct)
	}
	if slices.Contains(c.Conditions, catalog.Failover) {
		return Invalid("conditions %s and %s in one run: one needs a single Redis, the other a sentinel set", catalog.Partition, catalog.Failover)
	}
	if c.Wait < c.long() {
		return Invalid("a wait of %v; condition %s makes buyers wait for %v with a ttl of %v", c.Wait, catalog.Partition, c.long(), c.TTL)
	}
	if c.RedisURL == "" {
		return nil // not started yet
	}
	_, err := single(c.RedisURL)
	return err
}

// single returns the host:port of a single Redis. The error does not show its URL, which
// may have a password.
func single(redisURL string) (string, error) {
	addr, err := backend.SingleAddr(redisURL)
	if errors.Is(err, backend.ErrSpec) {
		return "", Invalid("%w", err) // not because of the condition
	}
	if err != nil {
		return "", Invalid("condition %s needs a Redis whose connections can be relayed (embedded, local or redis://host:port): %w", catalog.Partition, err)
	}
	return addr, nil
}

// relayed starts a relay to the Redis at the URL. The caller closes it.
func relayed(redisURL string) (through string, link *fault.Relay, err error) {
	if link, through, err = chaos.RelayRedis(redisURL); err != nil {
		return "", nil, fmt.Errorf("relaying an instance's connections to Redis: %w", err)
	}
	return through, link, nil
}

// toRedis is the link of an instance to Redis.
const toRedis = "redis"

// partition cuts off the instance of the holder that waits, and lets the holder go on.
//
// With the stock in the database only the unlock arrives too late, as under Late; and as
// there, holders elsewhere are kept at work until it has arrived.
func (r *run) partition(ctx context.Context, m *fleet.Member) error {
	if r.cfg.keeper(r.strategy, r.cond) == stock.InDatabase && r.strategy.Kind == catalog.Guarded {
		// Within its process the lock is handed on without Redis.
		if err := r.shops.stay(ctx, time.Now().Add(r.cfg.long()+r.cfg.linger()), m); err != nil {
			return err
		}
	}
	defer r.faults.begin(CutOff)()
	return m.CutOff(ctx, toRedis, r.cfg.long())
}
