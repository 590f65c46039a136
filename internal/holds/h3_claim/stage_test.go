package hold

import (
	"os"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/holds"
	"oversell/internal/holds/holdstest"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

func stage(b holds.Backends) holds.Stage { return New(b) }

func TestHoldsInCalm(t *testing.T) { holdstest.Each(t, 3, stage, holdstest.Calm) }

func TestExpiresInTime(t *testing.T) { holdstest.Each(t, 1, stage, holdstest.InTime) }

func TestLockedRowIsSkipped(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) { holdstest.LockedRow(t, s, "oversell_holds") })
}

func TestRush(t *testing.T) {
	holdstest.EachIsolation(t, 10, stage, func(t *testing.T, s *holdstest.Site) {
		for buyer, n := range holdstest.Rush(t, s) {
			if n > 1 {
				t.Errorf("%s has %d holds, and the limit is 1", buyer, n)
			}
		}
		s.Want(holdstest.Figures{Held: 10})
	})
}

// The late payer gets no order, and learns it, so that the payment can be refunded.
func TestLatePayment(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.LatePayment, holds.ErrNotHeld, holdstest.Figures{Sold: 1})
}

// Once a hold is released it cannot be paid.
func TestPaymentDuringRelease(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.PaymentDuringRelease, holds.ErrNotHeld, holdstest.Figures{Sold: 1})
}

// One of two sweeps gives the unit back.
func TestTwoSweeps(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.TwoSweeps, nil, holdstest.Figures{Left: 1})
}

// One of two releases gives the unit back.
func TestDoubleRelease(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.DoubleRelease, holds.ErrNotHeld, holdstest.Figures{Left: 1})
}

// If a process dies in the transaction, no unit is lost.
func TestCrashAfterTake(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.CrashAfterTake, nil, holdstest.Figures{Left: 3})
}

// A process that dies in the transaction leaves the hold as it was.
func TestCrashAfterOrder(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.CrashAfterOrder, nil, holdstest.Figures{Sold: 1})
}

// The next sweep finds the hold as it was.
func TestCrashInSweep(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.CrashInSweep, nil, holdstest.Figures{Left: 1})
}

// The second request is refused by the statement that counts it.
func TestLimitRaced(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.LimitRaced, holds.ErrLimit, holdstest.Figures{Left: 2, Held: 1})
}

// The unique index of the keys allows only one hold, which answers both requests.
func TestSameKeyAtOnce(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.SameKeyAtOnce, nil, holdstest.Figures{Left: 2, Held: 1})
}

// No process uses its own clock.
func TestClocksDiffer(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.ClocksDiffer, nil, holdstest.Figures{Left: 2, Held: 1})
}

// The order is written only while the item's row names the hold's sale.
func TestOldSaleIsStillPaid(t *testing.T) {
	holdstest.Test(t, 2, stage, holdstest.OldSale, holds.ErrSaleOver, holdstest.Figures{Left: 5})
}

// The sale is in the database.
func TestRedisLosesTheSale(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.RedisLosesTheSale, holds.ErrSoldOut, holdstest.Figures{Sold: 1})
}

func TestExtended(t *testing.T) { holdstest.Each(t, 2, stage, holdstest.Extended) }

// The statement that extends finds no row with the status held.
func TestExtendedAfterItWasSold(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.ExtendedAfterItWasSold, holds.ErrNotHeld, holdstest.Figures{Sold: 1})
}

func TestCancelled(t *testing.T) { holdstest.Each(t, 2, stage, holdstest.Cancelled) }

// One of two cancellations ends the order.
func TestCancelledTwice(t *testing.T) {
	cancelled := holds.NotHeldError{Status: holds.Cancelled}
	holdstest.Test(t, 1, stage, holdstest.CancelledTwice, cancelled, holdstest.Figures{Left: 1})
}
