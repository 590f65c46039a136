package hold

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"oversell/internal/holds"
)

// takeUnits takes the units from the item's row if there are enough.
func (s *Stage) takeUnits(ctx context.Context, r holds.Request) error {
	taken, err := s.write(ctx, "UPDATE oversell_items SET remaining = remaining - ?, version = version + 1 WHERE sku = ? AND sale_id = ? AND keeper = 'holds' AND remaining >= ?", r.Quantity, r.SKU, r.SaleID, r.Quantity)
	if err != nil || taken > 0 {
		return err
	}
	left, err := s.left(ctx, r.SKU, r.SaleID)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %d left", holds.ErrSoldOut, left)
}

// giveBack gives the units of a hold back to its sale, if that is the current one.
func (s *Stage) giveBack(ctx context.Context, h holds.Hold) error {
	_, err := s.write(ctx, "UPDATE oversell_items SET remaining = remaining + ?, version = version + 1 WHERE sku = ? AND sale_id = ?", h.Quantity, h.SKU, h.SaleID)
	return err
}

// insert writes the hold of units that were taken. If another request with its key was
// faster, it gives the units back and returns that request's hold.
func (s *Stage) insert(ctx context.Context, r holds.Request) (holds.Hold, error) {
	now := s.now().UTC().Truncate(time.Millisecond)
	h := holds.Hold{
		ID: r.ID, SKU: r.SKU, SaleID: r.SaleID, Buyer: r.Buyer, Quantity: r.Quantity, Status: holds.Held,
		CreatedAt: now, ExpiresAt: now.Add(r.TTL).Truncate(time.Millisecond),
	}
	_, err := s.write(ctx, "INSERT INTO oversell_holds (id, sku, sale_id, buyer, idempotency_key, quantity, token, status, payment_id, expires_at, created_at) VALUES (?, ?, ?, ?, NULLIF(?, ''), ?, 0, 'held', '', ?, ?)",
		h.ID, h.SKU, h.SaleID, h.Buyer, r.Key, h.Quantity, h.ExpiresAt.UnixMilli(), h.CreatedAt.UnixMilli())
	if err == nil || !s.sql.Duplicate(err) {
		return h, err
	}
	if err := s.giveBack(ctx, h); err != nil {
		return holds.Hold{}, err
	}
	earlier, _, err := s.byKey(ctx, r)
	return earlier, err
}

// insertOrder writes the order of a hold. If the payment is reported again, it returns the
// order that is there.
func (s *Stage) insertOrder(ctx context.Context, o holds.Order) (holds.Order, error) {
	_, err := s.write(ctx, "INSERT INTO oversell_orders (id, sku, sale_id, quantity, idempotency_key, strategy, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		o.ID, o.SKU, o.SaleID, o.Quantity, o.PaymentID, Name, o.CreatedAt)
	if err == nil || !s.sql.Duplicate(err) {
		return o, err
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

// end writes how the hold ended.
func (s *Stage) end(ctx context.Context, h holds.Hold, status holds.Status) error {
	_, err := s.write(ctx, "UPDATE oversell_holds SET status = ?, payment_id = ? WHERE id = ?", status, h.PaymentID, h.ID)
	return err
}

// write runs one statement, and returns how many rows it changed.
func (s *Stage) write(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	done, err := s.db.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("writing a hold or its units: %w", err)
	}
	return done.RowsAffected()
}
