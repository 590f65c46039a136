package naive

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ErrUsed means that the idempotency key is claimed, and that there is no order with it yet.
var ErrUsed = errors.New("a request with this idempotency key is being served")

// bareTries is how often BuyBare asks for a unit.
const bareTries = 3

// BuyBare takes one unit by INCREX, as one would write it at first, and writes the order. Key is
// the buyer's idempotency key; "": there is none. It returns ErrSoldOut or ErrUsed. If there is
// an order with the key it returns nil.
func (s Sale) BuyBare(ctx context.Context, key string) error {
	if key != "" {
		// WRONG: the claim and the unit are two keys, and two steps. A process that is killed
		// between them leaves a claim that nobody gives up and that does not expire, and its
		// buyer cannot buy any more.
		first, err := s.Redis.SetNX(ctx, s.claimKey(key), "", 0).Result()
		if err != nil {
			return fmt.Errorf("claiming an idempotency key: %w", err)
		}
		if !first {
			return s.replay(ctx, key)
		}
	}
	taken, err := s.takeBare(ctx)
	if err != nil {
		return err
	}
	// WRONG: the unit is not taken either if there is no stock, because Redis has evicted or
	// lost it. That reads as sold out, too.
	if taken == 0 {
		return ErrSoldOut
	}
	if err = s.writeKeyed(ctx, uuid.NewString(), key); err != nil {
		// WRONG: as in Buy. And INCREX creates a stock that does not exist, with one unit.
		err = errors.Join(err, s.Redis.IncrEXInt(context.WithoutCancel(ctx), s.left(), redis.IncrEXIntArgs{}).Err())
	}
	return err
}

// takeBare takes one unit, and returns what was added to the stock: -1, or 0.
func (s Sale) takeBare(ctx context.Context) (added int64, err error) {
	for range bareTries {
		var got redis.IncrEXIntResult
		got, err = s.Redis.IncrEXInt(ctx, s.left(), redis.IncrEXIntArgs{By: -1, HasBy: true, LBound: 0, HasLBound: true}).Result()
		if err == nil {
			return got.AppliedIncrement, nil
		}
		// WRONG: the command may have been executed, with only its reply lost. Asked again, it
		// takes another unit. The same is done by a client that sends a command again by
		// itself: that of go-redis does, unless MaxRetries is -1.
	}
	return 0, fmt.Errorf("taking a unit of %s: %w", s.Item.SKU, err)
}

// replay answers a buyer whose idempotency key is claimed.
func (s Sale) replay(ctx context.Context, key string) error {
	var n int64
	err := s.DB.WithContext(ctx).Table("oversell_orders").
		Where("sku = ? AND sale_id = ? AND idempotency_key = ?", s.Item.SKU, s.Item.SaleID, key).Count(&n).Error
	if err != nil {
		return fmt.Errorf("looking up the order of an idempotency key: %w", err)
	}
	if n == 0 {
		return ErrUsed
	}
	return nil
}

// claimKey is the key of the claim on an idempotency key.
func (s Sale) claimKey(key string) string { return "oversell:{" + s.Item.SKU + "}:naive:claim:" + key }
