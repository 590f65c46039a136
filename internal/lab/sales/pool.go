package sales

import (
	"strings"

	"oversell/internal/fault"
	"oversell/internal/lab"
)

// The subjects of pools.
const (
	sqlSnapshot = "sql_snapshot"
	sqlUnits    = "sql_units"
)

// pools returns what sells from a pool of units, without holds. These subjects need MySQL or
// MariaDB, and are tried only if they are named.
func pools() []lab.Subject {
	return []lab.Subject{
		{Name: sqlSnapshot, About: "naive: the unit is read from a snapshot that is older than the lock", Database: openDatabase},
		{Name: sqlUnits, About: "one row for each unit, claimed by a locking read", Database: openDatabase},
	}
}

// aboutHolds says that a question is not about pools, on top of what a scenario itself says.
func aboutHolds(s lab.Scenario) func(lab.Subject) string {
	return func(c lab.Subject) string {
		switch {
		case isPool(c) && s.Name != snapshotBeforeLock:
			return "it sells without holds"
		case s.NotApplicable == nil:
			return ""
		}
		return s.NotApplicable(c)
	}
}

func isPool(c lab.Subject) bool { return c.Name == sqlSnapshot || c.Name == sqlUnits }

// lastUnitOfPool has A begin to claim the last unit, and B get it before A has its lock.
func lastUnitOfPool(w *lab.World) lab.Verdict {
	p := openBehind(w, 1)
	a, b := p.start("A"), p.start("B")
	stop := a.ParkSQL(func(cmd fault.Command) bool { return strings.Contains(cmd.Args[1], "FOR UPDATE") })
	done := a.begin(a.buys)
	a.mustPark(stop, done)
	_ = b.buys()
	stop.Release()
	w.Must(done, "the end of A")
	return p.verdict()
}
