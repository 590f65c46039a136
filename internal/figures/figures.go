// Package figures gives every figure the project shows its one meaning, for
// the bench, the lab and the page alike. It only computes: what it is given
// was counted in the database, in Redis and by the clients.
package figures

// Stock is what an audit found of one sale of one item. Orders in the
// database are the ground truth; Remaining is what the stock counter in Redis
// says is left.
type Stock struct {
	Initial    int64 `json:"initial"`    // units the sale began with
	Remaining  int64 `json:"remaining"`  // units the counter says are left
	Sold       int64 `json:"sold"`       // units in committed order rows
	Orders     int64 `json:"orders"`     // committed order rows
	Duplicates int64 `json:"duplicates"` // orders beyond the first for one idempotency key
}

// Oversold is the number of units sold that were never there.
func (s Stock) Oversold() int64 { return max(0, s.Sold-s.Initial) }

// OversoldPossible is Oversold if every one of the unknown units was sold
// after all: the upper end of the interval that Oversold begins.
func (s Stock) OversoldPossible(unknown int64) int64 {
	return max(0, s.Sold+unknown-s.Initial)
}

// LostUpdates is the number of sold units that the stock does not show. It is
// negative when stock was taken and no order was written for it.
func (s Stock) LostUpdates() int64 { return s.Sold - (s.Initial - s.Remaining) }

// Stranded is the number of units that no buyer can have: they are in no order, and
// the counter does not have them either.
func (s Stock) Stranded() int64 { return max(0, s.Initial-s.Sold-s.Remaining) }

// Undersold is the number of units left although turnedAway buyers were told
// that the item is sold out, or gave up waiting. A unit counts as left only if
// it is neither in an order nor missing from the counter.
func (s Stock) Undersold(turnedAway int64) int64 {
	if turnedAway == 0 {
		return 0
	}
	return max(0, min(s.Remaining, s.Initial-s.Sold))
}
