// Package hold is stage 3: one conditional UPDATE decides how a hold ends.
//
// New: payment, release and sweep change the status only WHERE it is still held, the token
// is the hold's, and the hold has not expired (or has, for the sweep). One of them changes
// the row, and the others learn that they did not. The order, the stock and what the buyer
// has are written in the same transaction, and the clock is the database's.
//
// Holds:
//   - a hold keeps its units from others, and gives them back: TestHoldsInCalm
//   - no more units are held than there are, however many buyers come at once: TestRush
//   - two requests with one idempotency key make one hold: TestSameKeyAtOnce
//   - a late payment gets no order, nor does one beside a release: TestLatePayment,
//     TestPaymentDuringRelease
//   - of payment, release and sweep exactly one wins, and the units are sold or given back
//     once: TestExactlyOneWins, TestTwoSweeps, TestDoubleRelease
//   - a process that dies in the middle leaves nothing behind: TestCrashAfterTake,
//     TestCrashAfterOrder, TestCrashInSweep
//   - a Redis that loses its data does no harm, as there is nothing in it: TestRedisLosesTheSale
//   - no buyer gets more than the limit: TestLimitRaced
//   - a process whose clock is wrong does no harm: TestClocksDiffer
//   - a hold of a sale that is over cannot be paid or released: TestOldSaleIsStillPaid,
//     TestOldSaleIsNotReleased
//   - a commit whose reply was lost is looked up: TestLostCommit
//   - the token of another hold ends nothing: TestWrongToken, TestTransitionCarriesTheToken
//
// Breaks:
//   - a payment that was captured and gets no order has to be refunded, and that is not
//     part of the transaction: holds.Service does it, and TestDiesBeforeRefund shows the gap
//   - one database with one primary decides. A replica that was promoted before it received
//     a hold sells its units again.
package hold

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
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
	now       func() time.Time // for the dates of orders; nothing depends on it
}

// New returns the stage on its backends.
func New(b holds.Backends) *Stage {
	return &Stage{db: b.DB, sql: b.SQL, isolation: b.Isolation, now: b.Clock()}
}

// Take takes units from the stock, for a hold.
func (s *Stage) Take(ctx context.Context, r holds.Request) (holds.Hold, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	if h, found, err := s.byKey(ctx, r); found || err != nil {
		return h, err
	}
	if err := s.checkLeft(ctx, r); err != nil {
		return holds.Hold{}, err
	}
	if err := s.meet(ctx, r); err != nil {
		return holds.Hold{}, err
	}
	err := s.inTx(ctx, func(tx *sql.Tx) error {
		if err := s.countIn(ctx, tx, r); err != nil {
			return err
		}
		if err := s.takeUnits(ctx, tx, r); err != nil {
			return err
		}
		return s.insert(ctx, tx, r)
	})
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

// Release gives the units of a hold back.
func (s *Stage) Release(ctx context.Context, id string, token int64) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	h, err := s.find(ctx, id, token)
	if err != nil {
		return err
	}
	if err := s.free(ctx, h, holds.Released); err != nil {
		return s.notReleased(ctx, h, err)
	}
	return nil
}

// Sweep ends holds that have expired, and gives their units back.
func (s *Stage) Sweep(ctx context.Context, sku string, limit int) (expired int, err error) {
	due, err := s.due(ctx, sku, limit)
	if err != nil {
		return 0, err
	}
	for _, h := range due {
		if ctx.Err() != nil {
			return expired, cmp.Or(err, context.Cause(ctx))
		}
		endErr := s.free(ctx, h, holds.Expired)
		if endErr == nil {
			expired++
		} else if !errors.Is(endErr, errLost) { // or another sweep was faster
			err = cmp.Or(err, endErr) // the next hold may well be free
		}
	}
	return expired, err
}
