package hold

import (
	"context"
	"database/sql"
	"fmt"

	"oversell/internal/holds"
)

// countIn adds the units to what the buyer has, if the limit allows it.
func (s *Stage) countIn(ctx context.Context, tx *sql.Tx, r holds.Request) error {
	counted, err := s.write(ctx, tx, "UPDATE oversell_hold_buyers SET units = units + ? WHERE sale_id = ? AND buyer = ? AND (? = 0 OR units + ? <= ?)", r.Quantity, r.SaleID, r.Buyer, r.Limit, r.Quantity, r.Limit)
	if err == nil && counted == 0 {
		err = fmt.Errorf("%w: %d", holds.ErrLimit, r.Limit)
	}
	return err
}

// meet writes the buyer's row for countIn, unless there is one. It does so before the
// transaction: in it, two requests of a new buyer would wait for each other.
func (s *Stage) meet(ctx context.Context, r holds.Request) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := s.write(ctx, tx, s.sql.Ignore+" INTO oversell_hold_buyers (sale_id, buyer, units) VALUES (?, ?, 0)", r.SaleID, r.Buyer)
		return err
	})
}

// takeUnits takes the units from the item's row if there are enough.
func (s *Stage) takeUnits(ctx context.Context, tx *sql.Tx, r holds.Request) error {
	taken, err := s.write(ctx, tx, "UPDATE oversell_items SET remaining = remaining - ?, version = version + 1 WHERE sku = ? AND sale_id = ? AND keeper = 'holds' AND remaining >= ?", r.Quantity, r.SKU, r.SaleID, r.Quantity)
	if err == nil && taken == 0 {
		err = holds.ErrSoldOut
	}
	return err
}

// giveBack gives the units of a hold back to its buyer, and to its sale if that is the
// current one. A hold of an earlier sale has expired with it, and is not released.
func (s *Stage) giveBack(ctx context.Context, tx *sql.Tx, h holds.Hold, status holds.Status) error {
	if _, err := s.write(ctx, tx, "UPDATE oversell_hold_buyers SET units = units - ? WHERE sale_id = ? AND buyer = ?", h.Quantity, h.SaleID, h.Buyer); err != nil {
		return err
	}
	current, err := s.write(ctx, tx, "UPDATE oversell_items SET remaining = remaining + ?, version = version + 1 WHERE sku = ? AND sale_id = ?", h.Quantity, h.SKU, h.SaleID)
	if err == nil && current == 0 && status == holds.Released {
		err = holds.NotHeldError{Status: holds.Expired}
	}
	return err
}

// free ends a hold and gives its units back.
func (s *Stage) free(ctx context.Context, h holds.Hold, status holds.Status) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if err := s.end(ctx, tx, h, status); err != nil {
			return err
		}
		return s.giveBack(ctx, tx, h, status)
	})
}

// insert writes the hold of units that were taken. Its token is the version of the item's
// row, which the transaction has just raised and locked.
func (s *Stage) insert(ctx context.Context, tx *sql.Tx, r holds.Request) error {
	_, err := s.write(ctx, tx, "INSERT INTO oversell_holds (id, sku, sale_id, buyer, idempotency_key, quantity, token, status, payment_id, expires_at, created_at) "+
		"SELECT ?, sku, sale_id, ?, NULLIF(?, ''), ?, version, 'held', '', "+s.sql.Clock+" + ?, "+s.sql.Clock+" FROM oversell_items WHERE sku = ?",
		r.ID, r.Buyer, r.Key, r.Quantity, r.TTL.Milliseconds(), r.SKU)
	return err
}

// insertOrder writes the order of a hold if its sale is the current one. It locks the
// item's row against the beginning of another.
func (s *Stage) insertOrder(ctx context.Context, tx *sql.Tx, o holds.Order) error {
	written, err := s.write(ctx, tx, "INSERT INTO oversell_orders (id, sku, sale_id, quantity, idempotency_key, strategy, created_at) "+
		"SELECT ?, sku, sale_id, ?, ?, ?, ? FROM oversell_items WHERE sku = ? AND sale_id = ?"+s.sql.Share,
		o.ID, o.Quantity, o.PaymentID, Name, o.CreatedAt, o.SKU, o.SaleID)
	switch {
	case s.sql.Duplicate(err):
		return holds.ErrPaymentUsed
	case err == nil && written == 0:
		return fmt.Errorf("%w: %w", holds.NotHeldError{Status: holds.Expired}, holds.ErrSaleOver)
	}
	return err
}

// end decides how the hold ends: of all that try, one changes the row. The others get
// errLost.
func (s *Stage) end(ctx context.Context, tx *sql.Tx, h holds.Hold, status holds.Status) error {
	due := "expires_at > "
	if status == holds.Expired {
		due = "expires_at <= "
	}
	ended, err := s.write(ctx, tx, "UPDATE oversell_holds SET status = ?, payment_id = ? WHERE id = ? AND token = ? AND status = 'held' AND "+due+s.sql.Clock, status, h.PaymentID, h.ID, h.Token)
	if err == nil && ended == 0 {
		err = errLost
	}
	return err
}

// write runs one statement, and returns how many rows it changed.
func (s *Stage) write(ctx context.Context, tx *sql.Tx, statement string, args ...any) (rows int64, err error) {
	done, err := tx.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("writing a hold or its units: %w", err)
	}
	return done.RowsAffected()
}
