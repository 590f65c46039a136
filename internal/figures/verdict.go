package figures

import "time"

// Verdict is the one word for what came out of a run.
type Verdict string

// The verdicts. Only OK is good; which one must come out is for the catalog
// of strategies to say.
const (
	OK        Verdict = "ok"        // sold what was there, and the counter agrees
	Oversold  Verdict = "oversold"  // more units sold than there were
	Drift     Verdict = "drift"     // counter, orders and what buyers were told disagree, nothing oversold
	Undersold Verdict = "undersold" // buyers turned away although units were left
	Stuck     Verdict = "stuck"     // as Undersold, and at the end nobody was let in any more
	Unknown   Verdict = "unknown"   // the outcomes that were not learned decide whether it oversold
	Reloaded  Verdict = "reloaded"  // cache: the cold key was loaded more than once
)

// Run is all that a verdict on a sale needs.
type Run struct {
	Stock
	Told       Told          // what buyers were told, compared with the orders
	SoldOut    int64         // buyers told that the item is sold out
	GaveUp     int64         // buyers who gave up waiting, or were refused for another reason
	Unresolved int64         // units whose sale can neither be shown nor ruled out
	Idle       time.Duration // how long at the end nobody had been let in, while somebody waited
	StuckAfter time.Duration // Idle from which on the guard counts as stuck
}

// Verdict judges a sale. Worse comes first: a sale that oversold and also
// drifted is Oversold.
func (r Run) Verdict() Verdict {
	left := r.Undersold(r.SoldOut + r.GaveUp)
	switch {
	case r.Oversold() > 0:
		return Oversold
	case left > 0 && r.GaveUp > 0 && r.Idle >= r.StuckAfter:
		return Stuck
	case r.OversoldPossible(r.Unresolved) > 0:
		return Unknown
	case r.LostUpdates() != 0 || r.Told.Any() || r.Duplicates > 0:
		return Drift
	case left > 0:
		return Undersold
	}
	return OK
}

// CacheRun is all that a verdict on a cold key needs.
type CacheRun struct {
	Loads  int64 // times the database was asked
	Served int64 // readers that got the value
	GaveUp int64 // readers that gave up waiting, or were refused for another reason
}

// Verdict judges the reading of one cold key. Readers who gave up are Stuck
// when nobody was served, and otherwise count as Undersold: turned away
// although the value could be had.
func (r CacheRun) Verdict() Verdict {
	switch {
	case r.Served == 0:
		return Stuck
	case r.GaveUp > 0:
		return Undersold
	case r.Loads > 1:
		return Reloaded
	}
	return OK
}
