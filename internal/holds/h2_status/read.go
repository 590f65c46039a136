package hold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"oversell/internal/holds"
)

// read reads a hold.
func (s *Stage) read(ctx context.Context, id string) (holds.Hold, error) {
	return first(s.readAll(ctx, "WHERE id = ?", id))
}

// byKey returns the hold of an earlier request with the same idempotency key.
func (s *Stage) byKey(ctx context.Context, r holds.Request) (h holds.Hold, found bool, err error) {
	if r.Key == "" {
		return holds.Hold{}, false, nil
	}
	h, err = first(s.readAll(ctx, "WHERE sale_id = ? AND idempotency_key = ?", r.SaleID, r.Key))
	if errors.Is(err, holds.ErrUnknownHold) {
		return holds.Hold{}, false, nil
	}
	if err == nil && (h.Buyer != r.Buyer || h.Quantity != r.Quantity) {
		err = holds.ErrKeyReused
	}
	return s.aged(h), true, err
}

// due reads holds that have expired and are still held. It leaves out those whose row is
// locked: the next sweep finds them again.
func (s *Stage) due(ctx context.Context, sku string, limit int) ([]holds.Hold, error) {
	return s.readAll(ctx, "WHERE sku = ? AND status = 'held' AND expires_at <= ? ORDER BY expires_at LIMIT ?"+s.sql.Unlocked, sku, s.now().UnixMilli(), limit)
}

// readAll reads the holds that a WHERE selects.
func (s *Stage) readAll(ctx context.Context, which string, args ...any) ([]holds.Hold, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT id, sku, sale_id, buyer, quantity, token, status, payment_id, expires_at, created_at FROM oversell_holds "+which, args...)
	if err != nil {
		return nil, fmt.Errorf("reading holds: %w", err)
	}
	defer rows.Close()
	var all []holds.Hold
	for rows.Next() {
		var h holds.Hold
		var expires, created int64
		if err := rows.Scan(&h.ID, &h.SKU, &h.SaleID, &h.Buyer, &h.Quantity, &h.Token, &h.Status, &h.PaymentID, &expires, &created); err != nil {
			return nil, fmt.Errorf("reading a hold: %w", err)
		}
		h.ExpiresAt, h.CreatedAt = time.UnixMilli(expires).UTC(), time.UnixMilli(created).UTC()
		all = append(all, h)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("reading holds: %w", err)
	}
	return all, nil
}

// first returns the first hold, or ErrUnknownHold.
func first(all []holds.Hold, err error) (holds.Hold, error) {
	if err == nil && len(all) == 0 {
		err = holds.ErrUnknownHold
	}
	if err != nil {
		return holds.Hold{}, err
	}
	return all[0], nil
}

// has adds up the units that a buyer has.
func (s *Stage) has(ctx context.Context, sku, saleID, buyer string) (units int64, err error) {
	return s.number(ctx, "SELECT COALESCE(SUM(quantity), 0) FROM oversell_holds WHERE sku = ? AND sale_id = ? AND buyer = ? AND status IN ('held', 'paid')", sku, saleID, buyer)
}

// aged is a hold as it is now: one that has expired is so before the sweep has found it.
func (s *Stage) aged(h holds.Hold) holds.Hold {
	if h.Status == holds.Held && !s.now().Before(h.ExpiresAt) {
		h.Status = holds.Expired
	}
	return h
}

// List returns the newest holds of a sale.
func (s *Stage) List(ctx context.Context, sku, saleID string, limit int) ([]holds.Hold, error) {
	all, err := s.readAll(ctx, "WHERE sku = ? AND sale_id = ? ORDER BY id DESC LIMIT ?", sku, saleID, limit)
	for i, h := range all {
		all[i] = s.aged(h)
	}
	return all, err
}

// Units counts the units of a sale that are not sold. It is one statement: between two, a
// sweep could give units back that would be counted nowhere.
func (s *Stage) Units(ctx context.Context, sku, saleID string) (u holds.Units, err error) {
	now := s.now().UnixMilli()
	err = s.db.QueryRowContext(ctx, "SELECT i.remaining, COALESCE(SUM(CASE WHEN h.expires_at > ? THEN h.quantity END), 0), COALESCE(SUM(CASE WHEN h.expires_at <= ? THEN h.quantity END), 0) "+
		"FROM oversell_items i LEFT JOIN oversell_holds h ON h.sku = i.sku AND h.sale_id = i.sale_id AND h.status = 'held' "+
		"WHERE i.sku = ? AND i.sale_id = ? AND i.keeper = 'holds' GROUP BY i.sku, i.remaining", now, now, sku, saleID).Scan(&u.Left, &u.Held, &u.Due)
	if errors.Is(err, sql.ErrNoRows) {
		return holds.Units{}, holds.ErrSaleOver
	}
	if err != nil {
		return holds.Units{}, fmt.Errorf("counting units: %w", err)
	}
	return u, nil
}

// left reads the units left of a sale. It returns ErrSaleOver if the sale is not current.
func (s *Stage) left(ctx context.Context, sku, saleID string) (units int64, err error) {
	units, err = s.number(ctx, "SELECT remaining FROM oversell_items WHERE sku = ? AND sale_id = ? AND keeper = 'holds'", sku, saleID)
	if errors.Is(err, sql.ErrNoRows) {
		err = holds.ErrSaleOver
	}
	return units, err
}

// number runs a query that returns one number.
func (s *Stage) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	if err = s.db.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		err = fmt.Errorf("counting units: %w", err)
	}
	return n, err
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
