package hold

import (
	"errors"
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
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.LatePayment(t, s); err != nil {
			t.Errorf("the late payer was told %v; it got an order", err)
		}
		s.Want(holdstest.Figures{Sold: 2, Oversold: 1})
	})
}

// A flaw: the buyer who released and the next one both get the unit.
func TestPaymentDuringRelease(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.PaymentDuringRelease(t, s); err != nil {
			t.Errorf("the payer was told %v; it got an order", err)
		}
		s.Want(holdstest.Figures{Sold: 2, Oversold: 1})
	})
}

// A flaw: both sweeps give the unit back.
func TestTwoSweeps(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.TwoSweeps(t, s)
		s.Want(holdstest.Figures{Left: 2, Oversold: 1})
	})
}

// A flaw: both releases give the unit back.
func TestDoubleRelease(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.DoubleRelease(t, s); err != nil {
			t.Error(err)
		}
		s.Want(holdstest.Figures{Left: 2, Oversold: 1})
	})
}

// A flaw: the unit that was taken has no hold, so nothing ever gives it back.
func TestCrashAfterTake(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.CrashAfterTake(t, s)
		s.SweepAll()
		s.Want(holdstest.Figures{Left: 2, Stranded: 1})
	})
}

// A flaw: the order is there, and so is the hold: the sweep gives its unit to the next buyer.
func TestCrashAfterOrder(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.CrashAfterOrder(t, s)
		s.Want(holdstest.Figures{Sold: 2, Oversold: 1})
	})
}

// A flaw: the hold has ended, and nothing ever gives its unit back.
func TestCrashInSweep(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.CrashInSweep(t, s)
		s.Want(holdstest.Figures{Stranded: 1})
	})
}

// A flaw: both requests find that the buyer has nothing yet.
func TestLimitRaced(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.LimitRaced(t, s); err != nil {
			t.Errorf("the first request was told %v; it got a second unit", err)
		}
		s.Want(holdstest.Figures{Left: 1, Held: 2})
	})
}

// The unique index of the keys lets one of them have a hold, which answers both.
func TestSameKeyAtOnce(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		if !holdstest.SameKeyAtOnce(t, s) {
			t.Error("the requests got different holds")
		}
		s.Want(holdstest.Figures{Left: 2, Held: 1})
	})
}

// A flaw: the process ends a hold that another process has promised for an hour.
func TestClocksDiffer(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		if n := holdstest.ClocksDiffer(t, s); n != 1 {
			t.Errorf("%d holds ended before their time, want 1", n)
		}
		s.Want(holdstest.Figures{Left: 3})
	})
}

// A flaw: the buyer pays for a unit of a sale that is over.
func TestOldSaleIsStillPaid(t *testing.T) {
	holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.OldSale(t, s); err != nil {
			t.Errorf("the payer was told %v; there is an order in the old sale", err)
		}
	})
}

// The sale is in the database.
func TestRedisLosesTheSale(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.RedisLosesTheSale(t, s); !errors.Is(err, holds.ErrSoldOut) {
			t.Errorf("got %v, want %v", err, holds.ErrSoldOut)
		}
		s.Want(holdstest.Figures{Sold: 1})
	})
}

func BenchmarkHolds(b *testing.B) { holdstest.Bench(b, stage) }
