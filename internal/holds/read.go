package holds

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// The reads that stages have in common: no lesson depends on them.

// At returns a hold as it is at a time: it counts as expired when its time is over, even before a
// sweep has found it.
func (h Hold) At(now time.Time) Hold {
	if h.Status == Held && !now.Before(h.ExpiresAt) {
		h.Status = Expired
	}
	return h
}

// ReadHolds reads the holds that a query has found, and closes rows. The columns are id, sku, sale_id,
// buyer, quantity, token, status, payment_id, expires_at and created_at. Err is the query's error.
func ReadHolds(rows *sql.Rows, err error) ([]Hold, error) {
	if err != nil {
		return nil, fmt.Errorf("reading holds: %w", err)
	}
	defer rows.Close()
	var all []Hold
	for rows.Next() {
		var h Hold
		var expires, created int64
		if err := rows.Scan(&h.ID, &h.SKU, &h.SaleID, &h.Buyer, &h.Quantity, &h.Token, &h.Status, &h.PaymentID,
			&expires, &created); err != nil {
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

// First returns the first hold that ReadHolds has read, or ErrUnknownHold.
func First(all []Hold, err error) (Hold, error) {
	if err == nil && len(all) == 0 {
		err = ErrUnknownHold
	}
	if err != nil {
		return Hold{}, err
	}
	return all[0], nil
}

// ReadOrder reads the order with the id of a hold. Its error wraps sql.ErrNoRows if there is none.
func ReadOrder(ctx context.Context, db *sql.DB, holdID string) (o Order, err error) {
	err = db.QueryRowContext(ctx, "SELECT id, sku, sale_id, quantity, idempotency_key, created_at FROM "+
		"oversell_orders WHERE id = ?", holdID).
		Scan(&o.ID, &o.SKU, &o.SaleID, &o.Quantity, &o.PaymentID, &o.CreatedAt)
	if err != nil {
		return Order{}, fmt.Errorf("reading order %s: %w", holdID, err)
	}
	return o, nil
}
