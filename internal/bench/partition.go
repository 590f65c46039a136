package bench

import (
	"context"
	"fmt"
	"time"

	"oversell/internal/bench/chaos"
	"oversell/internal/catalog"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/stock"
)

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
