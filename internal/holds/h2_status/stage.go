// Package hold is stage 2: a hold is a row in the database, and its status says how it ended.
//
// New: the units are in the item's row, and one conditional UPDATE takes them. A hold is a row that
// stays, so an ended hold can be told from one that never existed. Payment, release and sweep each
// read the status, decide, and write it, in separate statements.
//
// The names are those of tests, of situations in TestSituations, and of anomalies in the lab.
//
// Holds:
//   - a hold keeps its units from other buyers, and returns them when it ends: TestPromises
//   - no more units are held than there are, even if many buyers come at once: TestRush
//   - two requests with one idempotency key make one hold: SameKeyAtOnce
//   - a Redis that loses its data does no harm, because the stage does not use it
//
// Breaks:
//   - the status can change between the read and the write: a late payment sells a unit that the
//     sweep has given back, and so does a payment during a release: late-payment,
//     released-still-payable
//   - an extension has the same flaw: it writes back the status that it has read: extended-after-sold
//   - two sweeps read the same hold, and both return its units: two-sweepers
//   - so do two releases, and two cancellations: double-release, cancelled-twice
//   - if a process dies after it took the units, they are lost: killed-with-units
//   - if it dies after it wrote the order, the hold remains, and its unit is sold again:
//     killed-between-order-and-hold
//   - if it dies in a sweep or a release, the units that it was about to give back are stranded:
//     CrashInSweep
//   - the limit is read before the step that takes the units: limit-outside-the-step
//   - holds expire by the clock of each process: if a process's clock is ahead, it sells units that
//     are still held: clock-differs
//   - a hold of a sale that is over can still be paid: OldSale
package hold

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"oversell/internal/holds"
)

// Name is the name of the stage.
const Name = "h2_status"

// A Stage keeps the holds of sales.
type Stage struct {
	db  *sql.DB
	sql holds.Dialect
	now func() time.Time
}

// New returns the stage on its backends.
func New(b holds.Backends) *Stage {
	return &Stage{db: b.DB, sql: b.SQL, now: b.Clock()}
}

// Take takes units from the stock for a hold.
func (s *Stage) Take(ctx context.Context, r holds.Request) (holds.Hold, error) {
	if h, found, err := s.byKey(ctx, r); found || err != nil {
		return h, err
	}
	has, err := s.has(ctx, r.SKU, r.SaleID, r.Buyer)
	if err != nil {
		return holds.Hold{}, err
	}
	if r.Limit > 0 && has+r.Quantity > r.Limit {
		return holds.Hold{}, fmt.Errorf("%w: %d of %d", holds.ErrLimit, has, r.Limit)
	}
	if err := s.takeUnits(ctx, r); err != nil {
		return holds.Hold{}, err
	}
	return s.insert(ctx, r)
}

// Look returns a hold as it is now.
func (s *Stage) Look(ctx context.Context, id string) (holds.Hold, error) {
	h, err := s.read(ctx, id)
	return h.At(s.now()), err
}

// Claim turns a hold into an order.
func (s *Stage) Claim(ctx context.Context, id string, _ int64, paymentID string) (holds.Order, error) {
	h, err := s.Look(ctx, id)
	if err != nil {
		return holds.Order{}, err
	}
	if h.Status == holds.Paid && h.PaymentID == paymentID {
		return holds.ReadOrder(ctx, s.db, id)
	}
	if h.Status != holds.Held {
		return holds.Order{}, holds.NotHeldError{Status: h.Status}
	}
	h.PaymentID = paymentID
	order, err := s.insertOrder(ctx, h.Order(s.now()))
	if err != nil {
		return holds.Order{}, err
	}
	return order, s.end(ctx, h, holds.Paid)
}

// Extend lets a hold expire later.
func (s *Stage) Extend(ctx context.Context, id string, _ int64, ttl, most time.Duration) (holds.Hold, error) {
	h, err := s.Look(ctx, id)
	if err != nil {
		return h, err
	}
	if h.Status != holds.Held {
		return h, holds.NotHeldError{Status: h.Status}
	}
	expires, err := h.Extended(s.now(), ttl, most)
	if err != nil {
		return h, err
	}
	return s.extend(ctx, h, expires)
}

// Release returns the units of a hold to the stock.
func (s *Stage) Release(ctx context.Context, id string, _ int64) error {
	h, err := s.Look(ctx, id)
	if err != nil {
		return err
	}
	if h.Status != holds.Held {
		return holds.NotHeldError{Status: h.Status}
	}
	if err := s.end(ctx, h, holds.Released); err != nil {
		return err
	}
	return s.giveBack(ctx, h)
}

// Cancel removes the order of a paid hold and returns its units to the stock.
func (s *Stage) Cancel(ctx context.Context, id string, _ int64) error {
	h, err := s.Look(ctx, id)
	if err != nil {
		return err
	}
	if h.Status != holds.Paid {
		return holds.NotHeldError{Status: h.Status}
	}
	if err := s.deleteOrder(ctx, id); err != nil {
		return err
	}
	if err := s.end(ctx, h, holds.Cancelled); err != nil {
		return err
	}
	return s.giveBack(ctx, h)
}

// Sweep ends holds that have expired, and returns their units to the stock.
func (s *Stage) Sweep(ctx context.Context, sku string, limit int) (expired int, err error) {
	due, err := s.due(ctx, sku, limit)
	if err != nil {
		return 0, err
	}
	for _, h := range due {
		if endErr := s.end(ctx, h, holds.Expired); endErr != nil {
			err = cmp.Or(err, endErr) // the next hold may succeed
			continue
		}
		if err := s.giveBack(ctx, h); err != nil {
			return expired, err
		}
		expired++
	}
	return expired, err
}

// read reads a hold.
func (s *Stage) read(ctx context.Context, id string) (holds.Hold, error) {
	return holds.First(s.readAll(ctx, "WHERE id = ?", id))
}

// byKey returns the hold of an earlier request with the same idempotency key.
func (s *Stage) byKey(ctx context.Context, r holds.Request) (h holds.Hold, found bool, err error) {
	if r.Key == "" {
		return holds.Hold{}, false, nil
	}
	h, err = holds.First(s.readAll(ctx, "WHERE sale_id = ? AND idempotency_key = ?", r.SaleID, r.Key))
	if errors.Is(err, holds.ErrUnknownHold) {
		return holds.Hold{}, false, nil
	}
	if err == nil && (h.Buyer != r.Buyer || h.Quantity != r.Quantity) {
		err = holds.ErrKeyReused
	}
	return h.At(s.now()), true, err
}

// due reads holds that have expired and are still held. It leaves out those whose row is
// locked: the next sweep finds them again.
func (s *Stage) due(ctx context.Context, sku string, limit int) ([]holds.Hold, error) {
	return s.readAll(ctx,
		"WHERE sku = ? AND status = 'held' AND expires_at <= ? ORDER BY expires_at LIMIT ?"+s.sql.Unlocked, sku,
		s.now().UnixMilli(), limit)
}

// readAll reads the holds that the given WHERE clause selects.
func (s *Stage) readAll(ctx context.Context, which string, args ...any) ([]holds.Hold, error) {
	return holds.ReadHolds(s.db.QueryContext(ctx,
		"SELECT id, sku, sale_id, buyer, quantity, token, status, payment_id, expires_at, created_at FROM "+
			"oversell_holds "+which, args...))
}

// has returns how many units a buyer has.
func (s *Stage) has(ctx context.Context, sku, saleID, buyer string) (units int64, err error) {
	return s.number(ctx, "SELECT COALESCE(SUM(quantity), 0) FROM oversell_holds WHERE sku = ? AND sale_id = ? "+
		"AND buyer = ? AND status IN ('held', 'paid')", sku, saleID, buyer)
}

// List returns the newest holds of a sale.
func (s *Stage) List(ctx context.Context, sku, saleID string, limit int) ([]holds.Hold, error) {
	all, err := s.readAll(ctx, "WHERE sku = ? AND sale_id = ? ORDER BY id DESC LIMIT ?", sku, saleID, limit)
	for i, h := range all {
		all[i] = h.At(s.now())
	}
	return all, err
}

// Units counts the units of a sale that are not sold. It uses one statement: between two
// statements, a sweep could return units that neither of them counts.
func (s *Stage) Units(ctx context.Context, sku, saleID string) (u holds.Units, err error) {
	now := s.now().UnixMilli()
	err = s.db.QueryRowContext(ctx, "SELECT i.remaining, "+
		"COALESCE(SUM(CASE WHEN h.expires_at > ? THEN h.quantity END), 0), "+
		"COALESCE(SUM(CASE WHEN h.expires_at <= ? THEN h.quantity END), 0) "+
		"FROM oversell_items i LEFT JOIN oversell_holds h ON h.sku = i.sku AND h.sale_id = i.sale_id AND "+
		"h.status = 'held' "+
		"WHERE i.sku = ? AND i.sale_id = ? AND i.keeper = 'holds' GROUP BY i.sku, i.remaining", now, now, sku,
		saleID).Scan(&u.Left, &u.Held, &u.Due)
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
	units, err = s.number(ctx,
		"SELECT remaining FROM oversell_items WHERE sku = ? AND sale_id = ? AND keeper = 'holds'", sku, saleID)
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

// takeUnits takes the units from the item's row if there are enough.
func (s *Stage) takeUnits(ctx context.Context, r holds.Request) error {
	taken, err := s.write(ctx,
		"UPDATE oversell_items SET remaining = remaining - ?, version = version + 1 "+
			"WHERE sku = ? AND sale_id = ? AND keeper = 'holds' AND remaining >= ?",
		r.Quantity, r.SKU, r.SaleID, r.Quantity)
	if err != nil || taken > 0 {
		return err
	}
	left, err := s.left(ctx, r.SKU, r.SaleID)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %d left", holds.ErrSoldOut, left)
}

// giveBack returns the units of a hold to its sale, if the sale is current.
func (s *Stage) giveBack(ctx context.Context, h holds.Hold) error {
	_, err := s.write(ctx,
		"UPDATE oversell_items SET remaining = remaining + ?, version = version + 1 WHERE sku = ? AND sale_id = ?",
		h.Quantity, h.SKU, h.SaleID)
	return err
}

// insert writes the hold for units that were taken. If another request with its key was faster,
// insert puts the units back and returns that request's hold.
func (s *Stage) insert(ctx context.Context, r holds.Request) (holds.Hold, error) {
	now := s.now().UTC().Truncate(time.Millisecond)
	h := holds.Hold{
		ID: r.ID, SKU: r.SKU, SaleID: r.SaleID, Buyer: r.Buyer, Quantity: r.Quantity, Status: holds.Held,
		CreatedAt: now, ExpiresAt: now.Add(r.TTL).Truncate(time.Millisecond),
	}
	_, err := s.write(ctx,
		"INSERT INTO oversell_holds (id, sku, sale_id, buyer, idempotency_key, quantity, token, status, "+
			"payment_id, expires_at, created_at) VALUES (?, ?, ?, ?, NULLIF(?, ''), ?, 0, 'held', '', ?, ?)",
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

// extend writes a hold with another expiry.
func (s *Stage) extend(ctx context.Context, h holds.Hold, expires time.Time) (holds.Hold, error) {
	h.ExpiresAt = expires
	_, err := s.write(ctx, "UPDATE oversell_holds SET status = ?, expires_at = ? WHERE id = ?", h.Status,
		expires.UnixMilli(), h.ID)
	return h, err
}

// insertOrder writes the order of a hold. If the payment is reported again, it returns the existing
// order.
func (s *Stage) insertOrder(ctx context.Context, o holds.Order) (holds.Order, error) {
	_, err := s.write(ctx,
		"INSERT INTO oversell_orders (id, sku, sale_id, quantity, idempotency_key, strategy, created_at) VALUES "+
			"(?, ?, ?, ?, ?, ?, ?)",
		o.ID, o.SKU, o.SaleID, o.Quantity, o.PaymentID, Name, o.CreatedAt)
	if err == nil || !s.sql.Duplicate(err) {
		return o, err
	}
	there, err := holds.ReadOrder(ctx, s.db, o.ID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return holds.Order{}, holds.ErrPaymentUsed
	case err == nil && there.PaymentID != o.PaymentID:
		return holds.Order{}, holds.NotHeldError{Status: holds.Paid}
	}
	return there, err
}

// deleteOrder removes the order of a hold.
func (s *Stage) deleteOrder(ctx context.Context, id string) error {
	_, err := s.write(ctx, "DELETE FROM oversell_orders WHERE id = ?", id)
	return err
}

// end writes how the hold ended.
func (s *Stage) end(ctx context.Context, h holds.Hold, status holds.Status) error {
	_, err := s.write(ctx, "UPDATE oversell_holds SET status = ?, payment_id = ? WHERE id = ?", status, h.PaymentID,
		h.ID)
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
