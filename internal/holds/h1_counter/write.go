package hold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/holds"
)

// keep is how long the keys of a sale are kept after its last hold.
const keep = 7 * 24 * time.Hour

// begin sets the counter of a sale from the item's row, unless another process was faster.
func (s *Stage) begin(ctx context.Context, sku, saleID string) (left int64, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT remaining FROM oversell_items WHERE sku = ? AND sale_id = ? AND keeper = 'holds'", sku, saleID).Scan(&left)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, holds.ErrSaleOver
	}
	if err != nil {
		return 0, fmt.Errorf("reading the stock of %s: %w", sku, err)
	}
	if err := s.rdb.SetNX(ctx, leftKey(sku, saleID), left, keep).Err(); err != nil {
		return 0, fmt.Errorf("setting the counter of %s: %w", sku, err)
	}
	return left, nil
}

// takeUnits takes the units from the counter, and gives them back if there were not enough.
func (s *Stage) takeUnits(ctx context.Context, r holds.Request) error {
	left, err := s.left(ctx, r.SKU, r.SaleID)
	if err != nil {
		return err
	}
	if left < r.Quantity {
		return fmt.Errorf("%w: %d left", holds.ErrSoldOut, left)
	}
	left, err = s.rdb.DecrBy(ctx, leftKey(r.SKU, r.SaleID), r.Quantity).Result()
	if err != nil {
		return fmt.Errorf("taking the units: %w", err)
	}
	if left >= 0 {
		return nil
	}
	if err := s.rdb.IncrBy(ctx, leftKey(r.SKU, r.SaleID), r.Quantity).Err(); err != nil {
		return fmt.Errorf("giving the units back: %w", err)
	}
	return fmt.Errorf("%w: %d left", holds.ErrSoldOut, max(0, left+r.Quantity))
}

// giveBack gives the units of a hold back to its sale.
func (s *Stage) giveBack(ctx context.Context, h holds.Hold) error {
	return s.write(ctx, func(p redis.Pipeliner) {
		p.IncrBy(ctx, leftKey(h.SKU, h.SaleID), h.Quantity)
		p.DecrBy(ctx, hasKey(h.SKU, h.SaleID, h.Buyer), h.Quantity)
	})
}

// insert writes the hold of units that were taken.
func (s *Stage) insert(ctx context.Context, r holds.Request) (holds.Hold, error) {
	now := s.now().UTC().Truncate(time.Millisecond)
	h := holds.Hold{
		ID: r.ID, SKU: r.SKU, SaleID: r.SaleID, Buyer: r.Buyer, Quantity: r.Quantity, Status: holds.Held,
		CreatedAt: now, ExpiresAt: now.Add(r.TTL).Truncate(time.Millisecond),
	}
	err := s.write(ctx, func(p redis.Pipeliner) {
		p.Set(ctx, holdKey(h.ID), text(h), r.TTL)
		p.ZAdd(ctx, expiryKey(h.SKU), redis.Z{Score: float64(h.ExpiresAt.UnixMilli()), Member: text(h)})
		p.IncrBy(ctx, hasKey(h.SKU, h.SaleID, h.Buyer), h.Quantity)
		if r.Key != "" {
			p.Set(ctx, firstKey(h.SKU, h.SaleID, r.Key), h.ID, keep)
		}
		p.Expire(ctx, hasKey(h.SKU, h.SaleID, h.Buyer), keep)
		p.Expire(ctx, leftKey(h.SKU, h.SaleID), keep)
	})
	return h, err
}

// insertOrder writes the order of a hold. If the payment is reported again, it returns the
// order that is there.
func (s *Stage) insertOrder(ctx context.Context, o holds.Order) (holds.Order, error) {
	_, err := s.db.ExecContext(ctx, "INSERT INTO oversell_orders (id, sku, sale_id, quantity, idempotency_key, strategy, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		o.ID, o.SKU, o.SaleID, o.Quantity, o.PaymentID, Name, o.CreatedAt)
	if err == nil {
		return o, nil
	}
	if !s.sql.Duplicate(err) {
		return holds.Order{}, fmt.Errorf("writing order %s: %w", o.ID, err)
	}
	there, err := s.order(ctx, o.ID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return holds.Order{}, holds.ErrPaymentUsed
	case err == nil && there.PaymentID != o.PaymentID:
		return holds.Order{}, holds.NotHeldError{Status: holds.Paid}
	}
	return there, err
}

// end removes the hold, however it ended.
func (s *Stage) end(ctx context.Context, h holds.Hold, _ holds.Status) error {
	h.Status, h.PaymentID = holds.Held, "" // as it was written
	return s.write(ctx, func(p redis.Pipeliner) {
		p.Del(ctx, holdKey(h.ID))
		p.ZRem(ctx, expiryKey(h.SKU), text(h))
	})
}

// write sends commands in one round trip.
func (s *Stage) write(ctx context.Context, commands func(redis.Pipeliner)) error {
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		commands(p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing a hold or its units: %w", err)
	}
	return nil
}
