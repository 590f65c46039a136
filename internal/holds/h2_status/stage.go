// Package hold is stage 2: a hold is a row in the database, and its status says what became of it.
//
// New: the units are in the item's row, which one conditional UPDATE takes them from. A hold
// is a row that stays, so an ended hold can be told from one that never was. Payment,
// release and sweep each read the status, decide, and write it: that is three statements.
//
// Holds:
//   - a hold keeps its units from others, and gives them back: TestHoldsInCalm
//   - no more units are held than there are, however many buyers come at once: TestRush
//   - two requests with one idempotency key make one hold: TestSameKeyAtOnce
//   - a Redis that loses its data does no harm, as there is nothing in it: TestRedisLosesTheSale
//
// Breaks:
//   - the status can change between the read and the write: a late payment sells a unit
//     that the sweep has given back, and so does a payment beside a release:
//     TestLatePayment, TestPaymentDuringRelease
//   - two sweeps read the same hold, and both give its units back: TestTwoSweeps
//   - so do a release and another release: TestDoubleRelease
//   - a process that dies after it took the units takes them with it: TestCrashAfterTake
//   - one that dies after it wrote the order leaves the hold, whose unit is sold again:
//     TestCrashAfterOrder
//   - one that dies in a sweep or a release strands the units that it was about to give
//     back: TestCrashInSweep
//   - the limit is read before the step that takes the units: TestLimitRaced
//   - holds expire by the clock of each process: one whose clock is ahead sells what
//     another still holds: TestClocksDiffer
//   - a hold of a sale that is over can still be paid: TestOldSaleIsStillPaid
package hold

import (
	"cmp"
	"context"
	"database/sql"
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

// Take takes units from the stock, for a hold.
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
	return s.aged(h), err
}

// Claim turns a hold into an order.
func (s *Stage) Claim(ctx context.Context, id string, _ int64, paymentID string) (holds.Order, error) {
	h, err := s.Look(ctx, id)
	if err != nil {
		return holds.Order{}, err
	}
	if h.Status == holds.Paid && h.PaymentID == paymentID {
		return s.order(ctx, id)
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

// Release gives the units of a hold back.
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

// Sweep ends holds that have expired, and gives their units back.
func (s *Stage) Sweep(ctx context.Context, sku string, limit int) (expired int, err error) {
	due, err := s.due(ctx, sku, limit)
	if err != nil {
		return 0, err
	}
	for _, h := range due {
		if endErr := s.end(ctx, h, holds.Expired); endErr != nil {
			err = cmp.Or(err, endErr) // the next hold may well be free
			continue
		}
		if err := s.giveBack(ctx, h); err != nil {
			return expired, err
		}
		expired++
	}
	return expired, err
}
