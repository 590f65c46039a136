package naive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/guard"
)

// Consumer writes accepted orders. Each Consumer stands for one process. Its fields switch on three
// mistakes. It always makes the mistake that is marked in Sale.write.
type Consumer struct {
	Sale
	Name       string        // unique among all consumers
	ClaimAfter time.Duration // how long an order may stay unacknowledged before another consumer claims it

	// AckFirst: WRONG: orders are acknowledged before they are written. If a consumer dies in between,
	// they are lost.
	AckFirst bool

	// NoClaim: WRONG: an order that a consumer has read but not acknowledged is never read again.
	// Redis does not redeliver it by itself.
	NoClaim bool

	// NewID: WRONG: each attempt writes the order under a new id, so the database cannot detect a
	// duplicate.
	NewID bool
}

const (
	batch = 10                    // orders that are read in one call
	pause = 40 * time.Millisecond // between two reads of an empty stream
)

// Run writes orders until ctx ends. Orders that fail are left to be claimed.
func (c Consumer) Run(ctx context.Context) {
	for ctx.Err() == nil {
		entries, err := c.next(ctx)
		if err == nil && len(entries) > 0 {
			_ = c.consume(ctx, entries)
			continue
		}
		_ = guard.Sleep(ctx, pause)
	}
}

// next returns orders to write. It creates the consumer group if there is none.
func (c Consumer) next(ctx context.Context) ([]redis.XMessage, error) {
	found, err := c.read(ctx)
	if redis.HasErrorPrefix(err, "NOGROUP") {
		err = c.Redis.XGroupCreateMkStream(ctx, c.stream(), group, "0").Err()
	}
	return found, err
}

// read returns entries that another consumer has kept for too long, or else new ones.
func (c Consumer) read(ctx context.Context) ([]redis.XMessage, error) {
	if !c.NoClaim {
		claimed, _, err := c.Redis.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: c.stream(), Group: group, Consumer: c.Name, MinIdle: c.ClaimAfter, Start: "0-0", Count: batch,
		}).Result()
		if err != nil || len(claimed) > 0 {
			return claimed, err
		}
	}
	found, err := c.Redis.XReadGroup(ctx, &redis.XReadGroupArgs{
		Group: group, Consumer: c.Name, Streams: []string{c.stream(), ">"}, Count: batch, Block: -1, // do not block
	}).Result()
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0].Messages, nil
}

// consume writes orders one by one, and acknowledges them.
func (c Consumer) consume(ctx context.Context, entries []redis.XMessage) error {
	if c.AckFirst {
		if err := c.acknowledge(ctx, entries); err != nil {
			return err
		}
	}
	for _, e := range entries {
		id, _ := e.Values["order"].(string)
		if c.NewID {
			id = uuid.NewString()
		}
		if err := c.write(ctx, id); err != nil && !errors.Is(err, gorm.ErrDuplicatedKey) {
			return err
		}
	}
	if c.AckFirst {
		return nil
	}
	return c.acknowledge(ctx, entries)
}

func (c Consumer) acknowledge(ctx context.Context, entries []redis.XMessage) error {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	if err := c.Redis.XAck(ctx, c.stream(), group, ids...).Err(); err != nil {
		return fmt.Errorf("acknowledging %d orders: %w", len(ids), err)
	}
	return nil
}
