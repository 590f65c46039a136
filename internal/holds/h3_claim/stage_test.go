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

func TestPromises(t *testing.T) { holdstest.Promises(t, stage) }

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

// In no situation is a unit sold twice or lost.
func TestSituations(t *testing.T) {
	type figures = holdstest.Figures
	holdstest.Situations(t, stage, map[string]holdstest.Outcome{
		// The late buyer gets ErrNotHeld, so the shop can refund the payment.
		"LatePayment":            {Told: holds.ErrNotHeld, Figures: figures{Sold: 1}},
		"PaymentDuringRelease":   {Told: holds.ErrNotHeld, Figures: figures{Sold: 1}},
		"ExtendedAfterItWasSold": {Told: holds.ErrNotHeld, Figures: figures{Sold: 1}},
		// Only one of the two returns the unit to the stock.
		"TwoSweeps":      {Figures: figures{Left: 1}},
		"DoubleRelease":  {Told: holds.ErrNotHeld, Figures: figures{Left: 1}},
		"CancelledTwice": {Told: holds.NotHeldError{Status: holds.Cancelled}, Figures: figures{Left: 1}},
		// If a process dies in its transaction, the database rolls the transaction back.
		"CrashAfterTake":  {Figures: figures{Left: 3}},
		"CrashAfterOrder": {Figures: figures{Sold: 1}},
		"CrashInSweep":    {Figures: figures{Left: 1}},
		// The statement that counts the buyer's units refuses the second request.
		"LimitRaced": {Told: holds.ErrLimit, Figures: figures{Left: 2, Held: 1}},
		// The unique index on keys allows only one hold, and both requests get it.
		"SameKeyAtOnce": {Figures: figures{Left: 2, Held: 1}},
		// All processes use the database's clock.
		"ClocksDiffer": {Figures: figures{Left: 2, Held: 1}},
		// The order is written only while the item's row names the hold's sale.
		"OldSale": {Told: holds.ErrSaleOver, Figures: figures{Left: 5}},
		// The sale is in the database, so nothing is lost with Redis.
		"RedisLosesTheSale": {Told: holds.ErrSoldOut, Figures: figures{Sold: 1}},
	})
}
