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

func TestOneHoldDoesNotStopTheSweep(t *testing.T) {
	holdstest.Each(t, 3, stage, holdstest.OneCannotEnd)
}

func TestRush(t *testing.T) {
	holdstest.Each(t, 10, stage, func(t *testing.T, s *holdstest.Site) {
		holdstest.Rush(t, s)
		s.Want(holdstest.Figures{Held: 10})
	})
}

// All situations but the last two show a flaw of the stage.
func TestSituations(t *testing.T) {
	type figures = holdstest.Figures
	holdstest.Situations(t, stage, map[string]holdstest.Outcome{
		// Two buyers get the same unit.
		"LatePayment":            {Figures: figures{Sold: 2, Oversold: 1}},
		"PaymentDuringRelease":   {Figures: figures{Sold: 2, Oversold: 1}},
		"ExtendedAfterItWasSold": {Figures: figures{Sold: 2, Oversold: 1}}, // the status that was read is written back
		"CrashAfterOrder":        {Figures: figures{Sold: 2, Oversold: 1}}, // both the order and the hold exist
		// Both return the unit to the stock.
		"TwoSweeps":      {Figures: figures{Left: 2, Oversold: 1}},
		"DoubleRelease":  {Figures: figures{Left: 2, Oversold: 1}},
		"CancelledTwice": {Figures: figures{Left: 2, Oversold: 1}},
		// Nothing ever returns the unit to the stock.
		"CrashAfterTake": {Figures: figures{Left: 2, Stranded: 1}},
		"CrashInSweep":   {Figures: figures{Stranded: 1}},
		// Both requests find that the buyer has no hold yet.
		"LimitRaced": {Figures: figures{Left: 1, Held: 2}},
		// A process whose clock is ahead ends a hold that another process promised for an hour.
		"ClocksDiffer": {Figures: figures{Left: 3}},
		// The buyer pays for a hold of a sale that is over.
		"OldSale": {Figures: figures{Left: 5}},

		// The unique index on keys allows only one hold, and both requests get it.
		"SameKeyAtOnce": {Figures: figures{Left: 2, Held: 1}},
		// The sale is in the database, so nothing is lost with Redis.
		"RedisLosesTheSale": {Told: holds.ErrSoldOut, Figures: figures{Sold: 1}},
	})
}
