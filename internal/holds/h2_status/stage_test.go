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

func TestOneHoldDoesNotStopTheSweep(t *testing.T) {
	holdstest.Each(t, 3, stage, holdstest.OneCannotEnd)
}

func TestLockedRowIsSkipped(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) { holdstest.LockedRow(t, s, "oversell_holds") })
}

func TestRush(t *testing.T) {
	holdstest.Each(t, 10, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.Rush(t, s)
		s.Want(holdstest.Figures{Held: 10})
	})
}

// A flaw: the late payer and the next buyer both get the unit.
func TestLatePayment(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.LatePayment, nil, holdstest.Figures{Sold: 2, Oversold: 1})
}

// A flaw: the buyer who released and the next one both get the unit.
func TestPaymentDuringRelease(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.PaymentDuringRelease, nil, holdstest.Figures{Sold: 2, Oversold: 1})
}

// A flaw: both sweeps give the unit back.
func TestTwoSweeps(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.TwoSweeps, nil, holdstest.Figures{Left: 2, Oversold: 1})
}

// A flaw: both releases give the unit back.
func TestDoubleRelease(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.DoubleRelease, nil, holdstest.Figures{Left: 2, Oversold: 1})
}

// A flaw: the unit that was taken has no hold, so nothing ever gives it back.
func TestCrashAfterTake(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.CrashAfterTake, nil, holdstest.Figures{Left: 2, Stranded: 1})
}

// A flaw: both the order and the hold exist: the sweep gives the hold's unit to the next buyer.
func TestCrashAfterOrder(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.CrashAfterOrder, nil, holdstest.Figures{Sold: 2, Oversold: 1})
}

// A flaw: the hold has ended, and nothing ever gives its unit back.
func TestCrashInSweep(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.CrashInSweep, nil, holdstest.Figures{Stranded: 1})
}

// A flaw: both requests find that the buyer has nothing yet.
func TestLimitRaced(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.LimitRaced, nil, holdstest.Figures{Left: 1, Held: 2})
}

// The unique index of the keys allows only one hold, which answers both requests.
func TestSameKeyAtOnce(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.SameKeyAtOnce, nil, holdstest.Figures{Left: 2, Held: 1})
}

// A flaw: the process ends a hold that another process has promised for an hour.
func TestClocksDiffer(t *testing.T) {
	holdstest.Test(t, 3, stage, holdstest.ClocksDiffer, nil, holdstest.Figures{Left: 3})
}

// A flaw: the buyer pays for a unit of a sale that is over.
func TestOldSaleIsStillPaid(t *testing.T) {
	holdstest.Test(t, 2, stage, holdstest.OldSale, nil, holdstest.Figures{Left: 5})
}

// The sale is in the database.
func TestRedisLosesTheSale(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.RedisLosesTheSale, holds.ErrSoldOut, holdstest.Figures{Sold: 1})
}

func TestExtended(t *testing.T) { holdstest.Each(t, 2, stage, holdstest.Extended) }

// The status that was read is written again, and the hold is paid.
func TestExtendedAfterItWasSold(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.ExtendedAfterItWasSold, nil, holdstest.Figures{Sold: 2, Oversold: 1})
}

func TestCancelled(t *testing.T) { holdstest.Each(t, 2, stage, holdstest.Cancelled) }

// Both give the unit back.
func TestCancelledTwice(t *testing.T) {
	holdstest.Test(t, 1, stage, holdstest.CancelledTwice, nil, holdstest.Figures{Left: 2, Oversold: 1})
}
