// Package hold is stage 3: one conditional UPDATE decides how a hold ends.
//
// New: payment and release change the status only WHERE it is still held, the token is the hold's,
// and the hold has not expired; expired holds are ended only WHERE they have expired. Only one of
// them changes the row, and the others see that they did not. The order, the stock and the buyer's
// count are written in the same transaction, and the clock is the database's. A buyer who finds too
// few units ends expired holds, so that their units are free immediately.
//
// The names are those of tests, of situations in TestSituations, and of anomalies in the lab.
//
// Holds:
//   - a hold keeps its units from other buyers, and returns them when it ends: TestPromises
//   - no more units are held than there are, even if many buyers come at once: TestRush
//   - two requests with one idempotency key make one hold: SameKeyAtOnce
//   - neither a late payment nor one during a release gets an order: late-payment,
//     released-still-payable
//   - exactly one of payment, release and sweep wins, and the units are sold or given back
//     once: TestExactlyOneWins, two-sweepers, double-release
//   - the units of a hold are free when it expires, without a sweep: TestExpiredIsFree,
//     TestRushForExpired
//   - a process that dies in the middle leaves nothing behind: killed-with-units,
//     killed-between-order-and-hold, CrashInSweep
//   - a Redis that loses its data does no harm, because the stage does not use it
//   - no buyer gets more than the limit: limit-outside-the-step
//   - a hold that has ended is not extended: extended-after-sold
//   - an order is cancelled once: cancelled-twice
//   - a process whose clock is wrong does no harm: clock-differs
//   - a hold of a sale that is over cannot be paid or released: OldSale,
//     TestOldSaleIsNotReleased
//   - the outcome of a commit whose reply was lost is looked up: TestLostCommit
//   - a wrong token cannot end a hold: TestWrongToken, TestTransitionCarriesTheToken
//
// Breaks:
//   - a payment that was captured and gets no order has to be refunded, and that is not
//     part of the transaction: holds.Service does it, and TestDiesBeforeRefund shows the gap
//   - one database with one primary decides. If a replica is promoted before it has received a
//     hold, it sells the hold's units again.
package hold

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"oversell/internal/holds"
)

// Name is the name of the stage.
const Name = "h3_claim"

// A Stage keeps the holds of sales.
type Stage struct {
	db        *sql.DB
	sql       holds.Dialect
	isolation sql.IsolationLevel
	now       func() time.Time // for the dates of orders only
}

// New returns the stage on its backends.
func New(b holds.Backends) *Stage {
	return &Stage{db: b.DB, sql: b.SQL, isolation: b.Isolation, now: b.Clock()}
}

// Take takes units from the stock for a hold.
func (s *Stage) Take(ctx context.Context, r holds.Request) (holds.Hold, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	if h, found, err := s.byKey(ctx, r); found || err != nil {
		return h, err
	}
	if err := s.checkLeft(ctx, r); err != nil {
		return s.notTaken(ctx, r, err)
	}
	if err := s.meet(ctx, r); err != nil {
		return holds.Hold{}, err
	}
	err := s.take(ctx, r)
	for try := 1; try < maxAttempts && (errors.Is(err, holds.ErrSoldOut) || errors.Is(err, holds.ErrLimit)); try++ {
		if err = s.makeRoom(ctx, r, err); err != nil {
			break
		}
		err = s.take(ctx, r)
	}
	if err != nil {
		return s.notTaken(ctx, r, err)
	}
	return s.read(ctx, r.ID)
}

// Look returns a hold as it is now.
func (s *Stage) Look(ctx context.Context, id string) (holds.Hold, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	return s.read(ctx, id)
}

// Claim turns a hold into an order.
func (s *Stage) Claim(ctx context.Context, id string, token int64, paymentID string) (holds.Order, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	h, err := s.find(ctx, id, token)
	if err != nil {
		return holds.Order{}, err
	}
	h.PaymentID = paymentID
	order := h.Order(s.now())
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		if err := s.end(ctx, tx, h, holds.Paid); err != nil {
			return err
		}
		return s.insertOrder(ctx, tx, order)
	})
	if err != nil {
		return s.notClaimed(ctx, h, err)
	}
	return order, nil
}

// Extend lets a hold expire later.
func (s *Stage) Extend(ctx context.Context, id string, token int64, ttl, most time.Duration) (holds.Hold, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	h, err := s.find(ctx, id, token)
	if err != nil {
		return h, err
	}
	if h.Status != holds.Held {
		return h, holds.NotHeldError{Status: h.Status}
	}
	if err := s.inTx(ctx, func(tx *sql.Tx) error { return s.extend(ctx, tx, h, ttl, most) }); err != nil {
		return s.notExtended(ctx, h, most, err)
	}
	return s.read(ctx, id)
}

// Release returns the units of a hold to the stock.
func (s *Stage) Release(ctx context.Context, id string, token int64) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	h, err := s.find(ctx, id, token)
	if err != nil {
		return err
	}
	if err := s.free(ctx, h, holds.Released); err != nil {
		return s.notEnded(ctx, h, holds.Released, err)
	}
	return nil
}

// Cancel removes the order of a paid hold and returns its units to the stock.
func (s *Stage) Cancel(ctx context.Context, id string, token int64) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	h, err := s.find(ctx, id, token)
	if err != nil {
		return err
	}
	if h.Status != holds.Paid {
		return holds.NotHeldError{Status: h.Status}
	}
	err = s.inTx(ctx, func(tx *sql.Tx) error {
		if err := s.cancel(ctx, tx, h); err != nil {
			return err
		}
		return s.giveBack(ctx, tx, []holds.Hold{h}, holds.Cancelled)
	})
	if err != nil {
		return s.notEnded(ctx, h, holds.Cancelled, err)
	}
	return nil
}

// Sweep ends holds that have expired, and returns their units to the stock.
func (s *Stage) Sweep(ctx context.Context, sku string, limit int) (expired int, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	ctx, cancel := limited(ctx)
	defer cancel()
	return s.endDue(ctx, limit, "sku = ?", sku)
}

// errLost means that nothing was written, because the hold had ended or the token was wrong.
var errLost = errors.New("the hold was not changed")

// find reads a hold and checks the token. Only fields that never change may be relied on: the
// status may be different by the time of the UPDATE.
func (s *Stage) find(ctx context.Context, id string, token int64) (holds.Hold, error) {
	h, err := s.read(ctx, id)
	if err == nil && h.Token != token {
		err = holds.ErrToken
	}
	return h, err
}

// take is one attempt of Take.
func (s *Stage) take(ctx context.Context, r holds.Request) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if err := s.countIn(ctx, tx, r); err != nil {
			return err
		}
		if err := s.takeUnits(ctx, tx, r); err != nil {
			return err
		}
		return s.insert(ctx, tx, r)
	})
}

// batch is the maximum number of expired holds that Take ends in one transaction when it finds too
// few units.
const batch = 500

// makeRoom ends expired holds to free units for a take: those of the sale or, if the take failed
// because of the limit, those of the buyer. It returns an error if even their units are not enough.
func (s *Stage) makeRoom(ctx context.Context, r holds.Request, lacked error) error {
	check, which, args := s.checkLeft, "sku = ? AND sale_id = ?", []any{r.SKU, r.SaleID}
	if errors.Is(lacked, holds.ErrLimit) {
		check, which, args = s.checkLimit, which+" AND buyer = ?", append(args, r.Buyer)
	}
	if err := check(ctx, r); err != nil {
		return err
	}
	ended, err := s.endDue(ctx, batch, which, args...)
	if err == nil && ended == 0 { // another transaction has ended them, or is about to
		err = pause(ctx)
	}
	return err
}

// checkLeft returns ErrSoldOut if too few units are left, which saves a transaction.
func (s *Stage) checkLeft(ctx context.Context, r holds.Request) error {
	left, err := s.left(ctx, r)
	if err == nil && left < r.Quantity {
		err = fmt.Errorf("%w: %d left", holds.ErrSoldOut, left)
	}
	return err
}

// checkLimit returns ErrLimit unless the buyer may take the units. Holds that have expired do not
// count.
func (s *Stage) checkLimit(ctx context.Context, r holds.Request) error {
	has, err := s.number(ctx, "SELECT units - COALESCE((SELECT SUM(quantity) FROM oversell_holds h WHERE "+
		"h.sale_id = b.sale_id AND h.buyer = b.buyer AND "+s.isDue()+"), 0) FROM oversell_hold_buyers b "+
		"WHERE sale_id = ? AND buyer = ?", r.SaleID, r.Buyer)
	if err == nil && has+r.Quantity > r.Limit {
		err = fmt.Errorf("%w: %d of %d", holds.ErrLimit, has, r.Limit)
	}
	return err
}

// notTaken answers a Take that failed with err. The hold may still exist: either this request has
// written it and the reply to COMMIT was lost, or a faster request with the same key has written it.
func (s *Stage) notTaken(ctx context.Context, r holds.Request, err error) (holds.Hold, error) {
	if errors.Is(err, errUnsure) {
		h, lookErr := s.settled(ctx, r.ID)
		if errors.Is(lookErr, holds.ErrUnknownHold) {
			lookErr = err
		}
		return h, lookErr
	}
	if h, found, lookErr := s.byKey(ctx, r); found || lookErr != nil {
		return h, lookErr
	}
	if err == holds.ErrSoldOut { // from takeUnits, which does not know why
		err = cmp.Or(s.checkLeft(ctx, r), err)
	}
	return holds.Hold{}, err
}

// notClaimed answers a Claim whose transaction returned err. The order may still exist: either this
// call has written it, or an earlier call for the same payment has.
func (s *Stage) notClaimed(ctx context.Context, h holds.Hold, err error) (holds.Order, error) {
	now, err := s.outcome(ctx, h, err)
	if now.Status == holds.Paid && now.PaymentID == h.PaymentID {
		return holds.ReadOrder(ctx, s.db, h.ID)
	}
	return holds.Order{}, err
}

// notExtended answers an Extend whose transaction returned err. The hold may have been extended
// anyway: the reply to COMMIT was lost, or another call in the same millisecond has extended it.
func (s *Stage) notExtended(ctx context.Context, h holds.Hold, most time.Duration, err error) (holds.Hold, error) {
	now, outcome := s.outcome(ctx, h, err)
	if now.Status != holds.Held {
		return now, outcome
	}
	if _, err := h.Extended(h.CreatedAt, 0, most); err != nil {
		return now, err
	}
	if errors.Is(err, errUnsure) && now.ExpiresAt.Equal(h.ExpiresAt) {
		return now, err
	}
	return now, nil
}

// notEnded answers a Release or a Cancel whose transaction returned err. The argument with is the
// status that the call would have set.
func (s *Stage) notEnded(ctx context.Context, h holds.Hold, with holds.Status, err error) error {
	now, outcome := s.outcome(ctx, h, err)
	if now.Status == with && errors.Is(err, errUnsure) {
		return nil
	}
	return outcome
}

// outcome looks up the state of a hold if err leaves it open. It also returns the error for the
// caller.
func (s *Stage) outcome(ctx context.Context, h holds.Hold, err error) (holds.Hold, error) {
	if !errors.Is(err, errUnsure) && !errors.Is(err, errLost) {
		return holds.Hold{}, err
	}
	now, lookErr := s.settled(ctx, h.ID)
	if lookErr == nil && now.Status == holds.Expired {
		now, lookErr = s.expire(ctx, now)
	}
	if lookErr != nil {
		return holds.Hold{}, errors.Join(err, lookErr)
	}
	if now.Status != holds.Held {
		err = holds.NotHeldError{Status: now.Status}
	}
	return now, err
}

// expire ends a hold that reads as expired, unless a sweep has done so. A read alone is not enough:
// as long as the row's status is held, a claim that read the clock before the expiry may still win,
// and its buyer would get both the order and a refund.
func (s *Stage) expire(ctx context.Context, h holds.Hold) (holds.Hold, error) {
	if err := s.free(ctx, h, holds.Expired); err != nil && !errors.Is(err, errLost) {
		return holds.Hold{}, err
	}
	return s.settled(ctx, h.ID)
}

// read reads a hold.
func (s *Stage) read(ctx context.Context, id string) (holds.Hold, error) {
	return holds.First(s.readAll(ctx, "WHERE id = ?", id))
}

// settled reads a hold after transactions that were changing it have ended: it waits for the row's
// lock.
func (s *Stage) settled(ctx context.Context, id string) (holds.Hold, error) {
	return holds.First(s.readAll(ctx, "WHERE id = ?"+s.sql.Update, id))
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
	return h, true, err
}

// isDue returns the SQL condition for a hold that has expired and has not been ended.
func (s *Stage) isDue() string { return "status = 'held' AND expires_at <= " + s.sql.Clock }

// endDue ends holds that have expired, at most limit of one sale, in one transaction, and returns
// their units to the stock. It skips holds whose row, or whose buyer's row, is locked. At a higher
// isolation level it would also lock the gaps between the rows, into which others insert their
// holds.
func (s *Stage) endDue(ctx context.Context, limit int, which string, args ...any) (ended int, err error) {
	err = s.inTxAt(ctx, sql.LevelReadCommitted, func(tx *sql.Tx) error {
		due, err := s.due(ctx, tx, limit, which, args)
		if ended = len(due); err != nil || ended == 0 {
			return err
		}
		ids := make([]any, len(due))
		for i, h := range due {
			ids[i] = h.ID
		}
		changed, err := s.write(ctx, tx,
			"UPDATE oversell_holds SET status = 'expired' WHERE "+s.isDue()+" AND id IN "+list(ids), ids...)
		switch {
		case err != nil:
			return err
		case changed < int64(ended):
			return errLost
		}
		return s.giveBack(ctx, tx, due, holds.Expired)
	})
	switch {
	case errors.Is(err, errLost): // the clock was set back
		return 0, nil
	case err != nil:
		return 0, err
	}
	return ended, nil
}

// due locks and reads holds of one sale that have expired and have not been ended.
func (s *Stage) due(
	ctx context.Context, tx *sql.Tx, limit int, which string, args []any,
) (due []holds.Hold, err error) {
	due, err = holds.ReadHolds(tx.QueryContext(ctx, "SELECT id, sku, sale_id, buyer, quantity, token, status, "+
		"payment_id, expires_at, created_at FROM oversell_holds JOIN oversell_hold_buyers USING (sale_id, buyer) "+
		"WHERE "+which+" AND "+s.isDue()+" ORDER BY expires_at LIMIT ?"+cmp.Or(s.sql.Unlocked, s.sql.Update),
		append(args, limit)...))
	return slices.DeleteFunc(due, func(h holds.Hold) bool { return h.SaleID != due[0].SaleID }), err
}

// list returns the placeholders of an IN clause.
func list(values []any) string { return "(?" + strings.Repeat(", ?", len(values)-1) + ")" }

// readAll reads the holds that the given WHERE clause selects. A hold with the status held counts
// as expired when its time or its sale is over.
func (s *Stage) readAll(ctx context.Context, which string, args ...any) ([]holds.Hold, error) {
	return holds.ReadHolds(s.db.QueryContext(ctx, "SELECT id, sku, sale_id, buyer, quantity, token, "+
		"CASE WHEN status = 'held' AND (expires_at <= "+s.sql.Clock+
		" OR NOT EXISTS (SELECT 1 FROM oversell_items i WHERE i.sku = oversell_holds.sku AND i.sale_id = "+
		"oversell_holds.sale_id)) THEN 'expired' ELSE status END, "+
		"payment_id, expires_at, created_at FROM oversell_holds "+which, args...))
}

// List returns the newest holds of a sale.
func (s *Stage) List(ctx context.Context, sku, saleID string, limit int) ([]holds.Hold, error) {
	return s.readAll(ctx, "WHERE sku = ? AND sale_id = ? ORDER BY id DESC LIMIT ?", sku, saleID, limit)
}

// Units counts the units of a sale that are not sold. It uses one statement: between two
// statements, a sweep could return units that neither of them counts. Units of expired holds count
// as left: the next Take that needs them gets them.
func (s *Stage) Units(ctx context.Context, sku, saleID string) (u holds.Units, err error) {
	err = s.db.QueryRowContext(ctx,
		"SELECT i.remaining + COALESCE(SUM(CASE WHEN h.expires_at <= "+s.sql.Clock+" THEN h.quantity END), 0), "+
			"COALESCE(SUM(CASE WHEN h.expires_at > "+s.sql.Clock+" THEN h.quantity END), 0) "+
			"FROM oversell_items i LEFT JOIN oversell_holds h ON h.sku = i.sku AND h.sale_id = i.sale_id AND "+
			"h.status = 'held' "+
			"WHERE i.sku = ? AND i.sale_id = ? AND i.keeper = 'holds' GROUP BY i.sku, i.remaining", sku, saleID).
		Scan(&u.Left, &u.Held)
	if errors.Is(err, sql.ErrNoRows) {
		return holds.Units{}, holds.ErrSaleOver
	}
	if err != nil {
		return holds.Units{}, fmt.Errorf("counting units: %w", err)
	}
	return u, nil
}

// left reads the units left of a sale. If these are not enough, it also counts the units in expired
// holds, again in one statement. It returns ErrSaleOver if the sale is not current.
func (s *Stage) left(ctx context.Context, r holds.Request) (units int64, err error) {
	const from = " FROM oversell_items i WHERE sku = ? AND sale_id = ? AND keeper = 'holds'"
	units, err = s.number(ctx, "SELECT remaining"+from, r.SKU, r.SaleID)
	if err == nil && units < r.Quantity {
		units, err = s.number(ctx, "SELECT remaining + COALESCE((SELECT SUM(quantity) FROM oversell_holds h "+
			"WHERE h.sku = i.sku AND h.sale_id = i.sale_id AND "+s.isDue()+"), 0)"+from, r.SKU, r.SaleID)
	}
	return units, err
}

// number runs a query that returns one number. If it finds no row, number returns ErrSaleOver.
func (s *Stage) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = s.db.QueryRowContext(ctx, query, args...).Scan(&n)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, holds.ErrSaleOver
	case err != nil:
		return 0, fmt.Errorf("counting units: %w", err)
	}
	return n, nil
}

// countIn adds the units to the buyer's count, if the limit allows it.
func (s *Stage) countIn(ctx context.Context, tx *sql.Tx, r holds.Request) error {
	counted, err := s.write(ctx, tx,
		"UPDATE oversell_hold_buyers SET units = units + ? "+
			"WHERE sale_id = ? AND buyer = ? AND (? = 0 OR units + ? <= ?)",
		r.Quantity, r.SaleID, r.Buyer, r.Limit, r.Quantity, r.Limit)
	if err == nil && counted == 0 {
		err = fmt.Errorf("%w: %d", holds.ErrLimit, r.Limit)
	}
	return err
}

// meet inserts the buyer's row for countIn, unless it exists. It does so before the transaction:
// inside it, two requests of a new buyer would deadlock.
func (s *Stage) meet(ctx context.Context, r holds.Request) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		_, err := s.write(ctx, tx, s.sql.Ignore+" INTO oversell_hold_buyers (sale_id, buyer, units) VALUES (?, ?, 0)",
			r.SaleID, r.Buyer)
		return err
	})
}

// takeUnits takes the units from the item's row if there are enough.
func (s *Stage) takeUnits(ctx context.Context, tx *sql.Tx, r holds.Request) error {
	taken, err := s.write(ctx, tx,
		"UPDATE oversell_items SET remaining = remaining - ?, version = version + 1 "+
			"WHERE sku = ? AND sale_id = ? AND keeper = 'holds' AND remaining >= ?",
		r.Quantity, r.SKU, r.SaleID, r.Quantity)
	if err == nil && taken == 0 {
		err = holds.ErrSoldOut
	}
	return err
}

// giveBack subtracts the units of holds of one sale from their buyers' counts, and adds them to the
// sale if it is current. A hold of an earlier sale has expired with it, and cannot be released.
func (s *Stage) giveBack(ctx context.Context, tx *sql.Tx, all []holds.Hold, status holds.Status) error {
	sale, sum := all[0], int64(0)
	has := make(map[any]int64)
	for _, h := range all {
		has[h.Buyer] += h.Quantity
		sum += h.Quantity
	}
	buyers := make(map[int64][]any) // by their units
	for buyer, units := range has {
		buyers[units] = append(buyers[units], buyer)
	}
	for units, of := range buyers {
		if _, err := s.write(ctx, tx,
			"UPDATE oversell_hold_buyers SET units = units - ? WHERE sale_id = ? AND buyer IN "+list(of),
			append([]any{units, sale.SaleID}, of...)...); err != nil {
			return err
		}
	}
	current, err := s.write(ctx, tx,
		"UPDATE oversell_items SET remaining = remaining + ?, version = version + 1 WHERE sku = ? AND sale_id = ?",
		sum, sale.SKU, sale.SaleID)
	if err == nil && current == 0 && status == holds.Released {
		err = holds.NotHeldError{Status: holds.Expired}
	}
	return err
}

// free ends a hold and returns its units to the stock.
func (s *Stage) free(ctx context.Context, h holds.Hold, status holds.Status) error {
	return s.inTx(ctx, func(tx *sql.Tx) error {
		if err := s.end(ctx, tx, h, status); err != nil {
			return err
		}
		return s.giveBack(ctx, tx, []holds.Hold{h}, status)
	})
}

// insert writes the hold for units that were taken. Its token is the version of the item's row,
// which the transaction has just incremented and locked.
func (s *Stage) insert(ctx context.Context, tx *sql.Tx, r holds.Request) error {
	_, err := s.write(ctx, tx,
		"INSERT INTO oversell_holds (id, sku, sale_id, buyer, idempotency_key, quantity, token, status, "+
			"payment_id, expires_at, created_at) "+
			"SELECT ?, sku, sale_id, ?, NULLIF(?, ''), ?, version, 'held', '', "+s.sql.Clock+" + ?, "+s.sql.Clock+
			" FROM oversell_items WHERE sku = ?",
		r.ID, r.Buyer, r.Key, r.Quantity, r.TTL.Milliseconds(), r.SKU)
	return err
}

// insertOrder writes the order of a hold if its sale is current. It locks the item's row, so that
// no other sale can begin.
func (s *Stage) insertOrder(ctx context.Context, tx *sql.Tx, o holds.Order) error {
	written, err := s.write(ctx, tx,
		"INSERT INTO oversell_orders (id, sku, sale_id, quantity, idempotency_key, strategy, created_at) "+
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

// end decides how the hold ends: only one of the callers that try changes the row, and the others
// get errLost.
func (s *Stage) end(ctx context.Context, tx *sql.Tx, h holds.Hold, status holds.Status) error {
	due := "expires_at > "
	if status == holds.Expired {
		due = "expires_at <= "
	}
	ended, err := s.write(ctx, tx,
		"UPDATE oversell_holds SET status = ?, payment_id = ? "+
			"WHERE id = ? AND token = ? AND status = 'held' AND "+due+s.sql.Clock,
		status, h.PaymentID, h.ID, h.Token)
	if err == nil && ended == 0 {
		err = errLost
	}
	return err
}

// extend moves the expiry of a hold if it is held and has not expired.
func (s *Stage) extend(ctx context.Context, tx *sql.Tx, h holds.Hold, ttl, most time.Duration) error {
	until, last := s.sql.Clock+" + ?", "created_at + ?"
	extended, err := s.write(ctx, tx,
		"UPDATE oversell_holds SET expires_at = CASE WHEN "+until+" > "+last+" THEN "+last+" WHEN "+until+
			" > expires_at THEN "+until+" ELSE expires_at END WHERE id = ? AND token = ? AND status = 'held' AND "+
			"expires_at > "+s.sql.Clock+" AND expires_at < "+last,
		ttl.Milliseconds(), most.Milliseconds(), most.Milliseconds(), ttl.Milliseconds(), ttl.Milliseconds(),
		h.ID, h.Token, most.Milliseconds())
	if err == nil && extended == 0 {
		err = errLost
	}
	return err
}

// cancel ends a paid hold and removes its order: only one of the callers that try changes the row.
func (s *Stage) cancel(ctx context.Context, tx *sql.Tx, h holds.Hold) error {
	cancelled, err := s.write(ctx, tx,
		"UPDATE oversell_holds SET status = 'cancelled' WHERE id = ? AND token = ? AND status = 'paid'", h.ID, h.Token)
	if err == nil && cancelled == 0 {
		err = errLost
	}
	if err == nil {
		_, err = s.write(ctx, tx, "DELETE FROM oversell_orders WHERE id = ?", h.ID)
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

// errUnsure means that the connection broke during COMMIT: the transaction may have been
// committed.
var errUnsure = errors.New("it is not known whether the transaction was committed")

const (
	// timeout limits one call to a Stage. A call does not end with its caller's context: interrupting
	// a transaction closes its connection, and leaves its outcome unknown.
	timeout = 5 * time.Second
	// maxAttempts is how many times a transaction is tried if it conflicts with others.
	maxAttempts = 10
	// maxPause is the longest pause between two attempts.
	maxPause = 20 * time.Millisecond
)

func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), timeout)
}

// inTx runs f in a transaction, and repeats it if the database rolled it back because of a deadlock
// or a lock wait. If f returns an error, the transaction is rolled back and the error returned.
//
// All transactions lock rows in the same order: the hold's row, the buyer's row, the item's row.
// The item's row is last because every transaction needs it. Take inserts its hold after that, but
// no other transaction knows that row yet.
func (s *Stage) inTx(ctx context.Context, f func(tx *sql.Tx) error) error {
	return s.inTxAt(ctx, s.isolation, f)
}

func (s *Stage) inTxAt(ctx context.Context, level sql.IsolationLevel, f func(tx *sql.Tx) error) (err error) {
	for range maxAttempts {
		if err = s.tryTx(ctx, level, f); !s.sql.Conflict(err) || pause(ctx) != nil {
			return err
		}
	}
	return err
}

// pause waits for other transactions.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(rand.N(maxPause)):
		return nil
	}
}

func (s *Stage) tryTx(ctx context.Context, level sql.IsolationLevel, f func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // if it fails, the connection has failed, and the server rolls back
		return err
	}
	err = tx.Commit()
	if err != nil && !s.sql.Decided(err) {
		return fmt.Errorf("%w: %w", errUnsure, err)
	}
	return err
}
