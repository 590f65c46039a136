// Package hold is stage 1: a counter in Redis, and beside it a hold that expires.
//
// New: DECRBY takes the units, a key with a ttl remembers the hold, and a sorted set by
// expiry tells the sweep what to give back by INCRBY. The order is written to the database
// when the payment is there. This is what most articles do.
//
// Holds:
//   - a hold keeps its units from others, and gives them back: TestHoldsInCalm
//   - no more units are held than there are, however many buyers come at once: TestRush
//
// Breaks:
//   - the payment reads that the hold is there, and the order is written later, with no
//     condition: a late one sells a unit that the sweep has given back, and so does a
//     payment beside a release: TestLatePayment, TestPaymentDuringRelease
//   - two sweeps read the same hold, and both give its units back: TestTwoSweeps
//   - so do a release and another release: TestDoubleRelease
//   - a process that dies after DECRBY takes the units with it: TestCrashAfterTake
//   - one that dies after it wrote the order leaves the hold, whose unit is sold again:
//     TestCrashAfterOrder
//   - one that dies in a sweep or a release strands the units that it was about to give
//     back: TestCrashInSweep
//   - the limit and the idempotency key are read before the step that takes the units:
//     TestLimitRaced, TestSameKeyAtOnce
//   - the ttl is by the clock of Redis, the sweep by that of its own process:
//     TestClocksDiffer
//   - a counter that Redis has lost, by eviction or a restart, or after a week without a
//     hold, begins again with all units: TestRedisLosesTheSale
//   - a hold of a sale that is over can still be paid: TestOldSaleIsStillPaid
//   - an ended hold and one that never was look the same: TestHoldsInCalm
package hold

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/holds"
)

// Name is the name of the stage.
const Name = "h1_counter"

// A Stage keeps the holds of sales.
type Stage struct {
	rdb redis.UniversalClient
	db  *sql.DB
	sql holds.Dialect
	now func() time.Time
}

// New returns the stage on its backends.
func New(b holds.Backends) *Stage {
	return &Stage{rdb: b.Redis, db: b.DB, sql: b.SQL, now: b.Clock()}
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
