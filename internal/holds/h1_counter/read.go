package hold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"oversell/internal/holds"
)

// read reads a hold. One that is no longer there may have become an order.
func (s *Stage) read(ctx context.Context, id string) (holds.Hold, error) {
	text, err := s.rdb.Get(ctx, holdKey(id)).Result()
	if errors.Is(err, redis.Nil) {
		return s.paid(ctx, id)
	}
	if err != nil {
		return holds.Hold{}, fmt.Errorf("reading hold %s: %w", id, err)
	}
	return parse(text)
}

// paid makes a hold of the order that it became.
func (s *Stage) paid(ctx context.Context, id string) (holds.Hold, error) {
	o, err := s.order(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		err = holds.ErrUnknownHold
	}
	if err != nil {
		return holds.Hold{}, err
	}
	return holds.Hold{ID: id, SKU: o.SKU, SaleID: o.SaleID, Quantity: o.Quantity, Status: holds.Paid, PaymentID: o.PaymentID, CreatedAt: o.CreatedAt}, nil
}

// byKey returns the hold of an earlier request with the same idempotency key.
func (s *Stage) byKey(ctx context.Context, r holds.Request) (h holds.Hold, found bool, err error) {
	if r.Key == "" {
		return holds.Hold{}, false, nil
	}
	id, err := s.rdb.Get(ctx, firstKey(r.SKU, r.SaleID, r.Key)).Result()
	if err == nil {
		h, err = s.read(ctx, id)
	}
	if errors.Is(err, redis.Nil) || errors.Is(err, holds.ErrUnknownHold) {
		return holds.Hold{}, false, nil
	}
	if err == nil && (h.Status == holds.Held && h.Buyer != r.Buyer || h.Quantity != r.Quantity) {
		err = holds.ErrKeyReused
	}
	return s.aged(h), true, err
}

// due reads holds that have expired.
func (s *Stage) due(ctx context.Context, sku string, limit int) ([]holds.Hold, error) {
	return s.byExpiry(ctx, sku, &redis.ZRangeBy{Min: "-inf", Max: s.milliseconds(), Count: int64(limit)})
}

func (s *Stage) byExpiry(ctx context.Context, sku string, between *redis.ZRangeBy) ([]holds.Hold, error) {
	texts, err := s.rdb.ZRangeByScore(ctx, expiryKey(sku), between).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the holds of %s: %w", sku, err)
	}
	all := make([]holds.Hold, len(texts))
	for i, text := range texts {
		if all[i], err = parse(text); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *Stage) milliseconds() string { return strconv.FormatInt(s.now().UnixMilli(), 10) }

// has reads the units that a buyer has.
func (s *Stage) has(ctx context.Context, sku, saleID, buyer string) (units int64, err error) {
	units, err = s.rdb.Get(ctx, hasKey(sku, saleID, buyer)).Int64()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("reading what the buyer has: %w", err)
	}
	return units, nil
}

// aged is a hold as it is now: one that has expired is so before the sweep has found it.
func (s *Stage) aged(h holds.Hold) holds.Hold {
	if h.Status == holds.Held && !s.now().Before(h.ExpiresAt) {
		h.Status = holds.Expired
	}
	return h
}

// List returns holds of a sale that nobody has ended: the others are forgotten.
func (s *Stage) List(ctx context.Context, sku, saleID string, limit int) (all []holds.Hold, err error) {
	there, err := s.byExpiry(ctx, sku, &redis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(limit)})
	for _, h := range there {
		if h.SaleID == saleID {
			all = append(all, s.aged(h))
		}
	}
	return all, err
}

// Units counts the units of a sale that are not sold.
func (s *Stage) Units(ctx context.Context, sku, saleID string) (u holds.Units, err error) {
	if u.Left, err = s.left(ctx, sku, saleID); err != nil {
		return u, err
	}
	all, err := s.byExpiry(ctx, sku, &redis.ZRangeBy{Min: "-inf", Max: "+inf"})
	for _, h := range all {
		switch {
		case h.SaleID != saleID:
		case s.aged(h).Status == holds.Held:
			u.Held += h.Quantity
		default:
			u.Due += h.Quantity
		}
	}
	return u, err
}

// left reads the units left of a sale. The first reader sets the counter.
func (s *Stage) left(ctx context.Context, sku, saleID string) (units int64, err error) {
	units, err = s.rdb.Get(ctx, leftKey(sku, saleID)).Int64()
	if errors.Is(err, redis.Nil) {
		return s.begin(ctx, sku, saleID)
	}
	if err != nil {
		return 0, fmt.Errorf("reading the counter of %s: %w", sku, err)
	}
	return units, nil
}

// order reads the order of a hold.
func (s *Stage) order(ctx context.Context, id string) (o holds.Order, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT id, sku, sale_id, quantity, idempotency_key, created_at FROM oversell_orders WHERE id = ?", id).
		Scan(&o.ID, &o.SKU, &o.SaleID, &o.Quantity, &o.PaymentID, &o.CreatedAt)
	if err != nil {
		return holds.Order{}, fmt.Errorf("reading order %s: %w", id, err)
	}
	return o, nil
}
