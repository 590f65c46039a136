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
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.LatePayment(t, s); !errors.Is(err, holds.ErrNotHeld) {
			t.Errorf("the late payer was told %v, want %v", err, holds.ErrNotHeld)
		}
		s.Want(holdstest.Figures{Sold: 1})
	})
}

// Once a hold is released it cannot be paid.
func TestPaymentDuringRelease(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.PaymentDuringRelease(t, s); !errors.Is(err, holds.ErrNotHeld) {
			t.Errorf("the payer was told %v, want %v", err, holds.ErrNotHeld)
		}
		s.Want(holdstest.Figures{Sold: 1})
	})
}

// One of two sweeps gives the unit back.
func TestTwoSweeps(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.TwoSweeps(t, s)
		s.Want(holdstest.Figures{Left: 1})
	})
}

// One of two releases gives the unit back.
func TestDoubleRelease(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.DoubleRelease(t, s); !errors.Is(err, holds.ErrNotHeld) {
			t.Errorf("got %v, want %v", err, holds.ErrNotHeld)
		}
		s.Want(holdstest.Figures{Left: 1})
	})
}

// A process that dies in the transaction takes nothing with it.
func TestCrashAfterTake(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.CrashAfterTake(t, s)
		s.SweepAll()
		s.Want(holdstest.Figures{Left: 3})
	})
}

// A process that dies in the transaction leaves the hold as it was.
func TestCrashAfterOrder(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.CrashAfterOrder(t, s)
		s.Want(holdstest.Figures{Sold: 1})
	})
}

// The next sweep finds the hold as it was.
func TestCrashInSweep(t *testing.T) {
	holdstest.Each(t, 1, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.CrashInSweep(t, s)
		s.Want(holdstest.Figures{Left: 1})
	})
}

// The second request is refused by the statement that counts it.
func TestLimitRaced(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.LimitRaced(t, s); !errors.Is(err, holds.ErrLimit) {
			t.Errorf("got %v, want %v", err, holds.ErrLimit)
		}
		s.Want(holdstest.Figures{Left: 2, Held: 1})
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

// No process asks its own clock.
func TestClocksDiffer(t *testing.T) {
	holdstest.Each(t, 3, stage, func(t *testing.T, s *holdstest.Site) {
		if n := holdstest.ClocksDiffer(t, s); n != 0 {
			t.Errorf("%d holds ended before their time, want 0", n)
		}
		s.Want(holdstest.Figures{Left: 2, Held: 1})
	})
}

// The order is written only while the item's row names the hold's sale.
func TestOldSaleIsStillPaid(t *testing.T) {
	holdstest.Each(t, 2, stage, func(t *testing.T, s *holdstest.Site) {
		if err := holdstest.OldSale(t, s); !errors.Is(err, holds.ErrNotHeld) || !errors.Is(err, holds.ErrSaleOver) {
			t.Errorf("got %v, want %v and %v", err, holds.ErrNotHeld, holds.ErrSaleOver)
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
