package figures

import (
	"slices"
	"time"
)

// Verdict sums up a run.
type Verdict string

// The verdicts. Only OK is good; the catalog says which one to expect.
const (
	OK        Verdict = "ok"        // no more units were sold than there were, and the counter agrees
	Oversold  Verdict = "oversold"  // more units sold than there were
	Drift     Verdict = "drift"     // counter, orders, payments and what buyers were told disagree, nothing oversold
	Undersold Verdict = "undersold" // buyers were refused although units were left
	Stuck     Verdict = "stuck"     // like Undersold, and at the end no buyer could enter any more
	Unknown   Verdict = "unknown"   // it may have oversold: some outcomes are unknown
	Reloaded  Verdict = "reloaded"  // cache: the cold key was loaded more than once

	// NotComparable means that there is no verdict: a third-party lock ran on a server for which it
	// was not written.
	NotComparable Verdict = "not comparable"
)

// Rank returns the place of a verdict on a sale, from OK to the worst, in the same order as
// Run.Verdict.
func (v Verdict) Rank() int {
	return slices.Index([]Verdict{OK, Undersold, Drift, Unknown, Stuck, Oversold}, v)
}

// Run is the input of a verdict on a sale.
type Run struct {
	Stock
	Told       Told          // what buyers were told, compared with the orders
	SoldOut    int64         // buyers told that the item is sold out
	GaveUp     int64         // buyers who gave up waiting, or were refused for another reason
	Unresolved int64         // units that may have been sold
	Charged    int64         // captures that ended in neither exactly one order nor exactly one refund
	Idle       time.Duration // time at the end in which no buyer entered although buyers waited
	StuckAfter time.Duration // the shortest Idle time for which the guard counts as stuck
}

// Verdict returns the worst verdict that applies to a sale.
func (r Run) Verdict() Verdict {
	left := r.Undersold(r.SoldOut + r.GaveUp)
	switch {
	case r.Oversold() > 0:
		return Oversold
	case left > 0 && r.GaveUp > 0 && r.Idle >= r.StuckAfter:
		return Stuck
	case r.OversoldPossible(r.Unresolved) > 0:
		return Unknown
	case r.LostUpdates() != 0 || r.Told.Any() || r.Duplicates > 0 || r.Charged > 0:
		return Drift
	case left > 0:
		return Undersold
	}
	return OK
}

// ColdKey returns the verdict on a cold key that was read from the database that many times. It is
// Stuck if no reader was served. If some readers gave up or were refused, it is Undersold: the value
// was available.
func ColdKey(loads, served, gaveUp int64) Verdict {
	switch {
	case served == 0:
		return Stuck
	case gaveUp > 0:
		return Undersold
	case loads > 1:
		return Reloaded
	}
	return OK
}
