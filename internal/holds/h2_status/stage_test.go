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

func TestSituations(t *testing.T) {
	holdstest.Situations(t, stage, map[string]holdstest.Outcome{
		// Nothing ever returns the unit to the stock.
		"CrashInSweep": {Figures: holdstest.Figures{Stranded: 1}},
		// The unique index on keys allows only one hold, and both requests get it.
		"SameKeyAtOnce": {Figures: holdstest.Figures{Left: 2, Held: 1}},
		// The buyer pays for a hold of a sale that is over.
		"OldSale": {Figures: holdstest.Figures{Left: 5}},
	})
}
