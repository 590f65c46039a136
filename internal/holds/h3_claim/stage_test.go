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

func TestSituations(t *testing.T) {
	holdstest.Situations(t, stage, map[string]holdstest.Outcome{
		// If a process dies in its transaction, the database rolls the transaction back.
		"CrashInSweep": {Figures: holdstest.Figures{Left: 1}},
		// The unique index on keys allows only one hold, and both requests get it.
		"SameKeyAtOnce": {Figures: holdstest.Figures{Left: 2, Held: 1}},
		// The order is written only while the item's row names the hold's sale.
		"OldSale": {Told: holds.ErrSaleOver, Figures: holdstest.Figures{Left: 5}},
	})
}
