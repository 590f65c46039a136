// Package figures computes every figure that the bench, the lab and the page show. It only
// computes: the inputs were counted in the database, in Redis and by the clients.
package figures

import "time"

// Milliseconds returns d in milliseconds, with microseconds as the fraction.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// Stock is the audit of one sale of one item. The orders in the database are the ground
// truth; Remaining is the stock counter.
type Stock struct {
	Initial    int64 `json:"initial"`    // units that the sale began with, and units added since
	Remaining  int64 `json:"remaining"`  // units left according to the counter
	Held       int64 `json:"held"`       // units in holds that have not expired; 0 in a sale without holds
	Unwritten  int64 `json:"unwritten"`  // units in accepted orders that are not written yet
	Sold       int64 `json:"sold"`       // units in committed order rows
	Orders     int64 `json:"orders"`     // committed order rows
	Duplicates int64 `json:"duplicates"` // orders beyond the first for one idempotency key
}

// Oversold returns the number of units that were sold beyond those that existed.
func (s Stock) Oversold() int64 { return max(0, s.Sold-s.Initial) }

// OversoldPossible returns what Oversold would return if all unknown units were sold, too. It is an
// upper bound of the units oversold, and Oversold is the lower bound.
func (s Stock) OversoldPossible(unknown int64) int64 {
	return max(0, s.Sold+unknown-s.Initial)
}

// LostUpdates returns the number of sold units that the counter does not show. It is negative if
// stock was taken without an order.
func (s Stock) LostUpdates() int64 { return s.Sold - (s.Initial - s.Remaining - s.Held - s.Unwritten) }

// Stranded returns the number of units that nobody can buy. They are not in an order, the counter,
// a hold or an accepted order.
func (s Stock) Stranded() int64 { return max(0, s.Initial-s.Sold-s.Remaining-s.Held-s.Unwritten) }

// Undersold returns the number of units left although buyers were turned away: they were told that
// the item is sold out, or gave up. A unit counts as left only if it is neither in an order nor
// missing from the counter.
func (s Stock) Undersold(turnedAway int64) int64 {
	if turnedAway == 0 {
		return 0
	}
	return max(0, min(s.Remaining, s.Initial-s.Sold-s.Unwritten))
}
