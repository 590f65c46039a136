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

// Consumer writes accepted orders, as one process. It has one of three mistakes, or none of
// them; the one that is marked in Sale.write it always has.
type Consumer struct {
	Sale
	Name       string        // unique among all consumers
	ClaimAfter time.Duration // after that an order that is not acknowledged goes to another consumer

	// AckFirst: WRONG: orders are acknowledged before they are written. A consumer that dies
	// in between takes them with it.
	AckFirst bool

	// NoClaim: WRONG: what a consumer has read and not acknowledged is never read again. Redis
	// hands it to nobody by itself.
	NoClaim bool

	// NewID: WRONG: each attempt writes the order under an id of its own, so that the database
	// cannot tell that it was written before.
	NewID bool
}

const (
	batch = 10                    // orders that are read at once
	pause = 40 * time.Millisecond // between two looks at a stream that has nothing
)

// Run writes orders until ctx ends. What fails is left to be claimed.
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

// next returns orders to write. The first one to ask creates the consumer group.
func (c Consumer) next(ctx context.Context) ([]redis.XMessage, error) {
	found, err := c.read(ctx)
	if redis.HasErrorPrefix(err, "NOGROUP") {
		err = c.Redis.XGroupCreateMkStream(ctx, c.stream(), group, "0").Err()
	}
	return found, err
}

// read returns what somebody else has had for too long, or else what is new.
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
