package runs

import (
	"slices"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/message"
)

// Phase is a phase of a row in progress.
type Phase string

// The phases.
const (
	Setup  Phase = "setup"  // shops start, connections are opened
	Load   Phase = "load"   // requests are in flight
	Audit  Phase = "audit"  // every outcome is known; the final audit is running
	Judged Phase = "judged" // the row is finished
)

// Live is the row under way.
type Live struct {
	Row       int               `json:"row"` // counted from 1
	Of        int               `json:"of"`
	Strategy  string            `json:"strategy"`
	Condition catalog.Condition `json:"condition"`
	Requests  int               `json:"requests"`
	Stock     int64             `json:"stock"`
	Phase     Phase             `json:"phase"`
	Point     *Point            `json:"point"` // nil in Setup
	Broken    []Broken          `json:"broken"`
	Faults    []bench.Fault     `json:"faults"`

	exclusive bool
}

// Point is a sample of a row: see bench.Live.
type Point struct {
	T          float64 `json:"t_ms"` // since the requests started
	Waiting    int64   `json:"waiting"`
	Served     int64   `json:"served"`
	SoldOut    int64   `json:"sold_out"`
	Failed     int64   `json:"failed"`
	Unknown    int64   `json:"unknown"`
	Holders    int64   `json:"holders"` // inside at T; -1: unknown
	MaxHolders int     `json:"max_holders"`
	Audited    float64 `json:"audit_ms"` // when Remaining and Sold were audited; -1: not yet
	Remaining  int64   `json:"remaining"`
	Sold       int64   `json:"sold"`
}

// Invariant is a condition that must hold at any time in a row.
type Invariant string

// The invariants. Everything else is left to the verdict.
const (
	StockHolds Invariant = "stock"   // no more units are sold than there were
	OneHolder  Invariant = "holders" // at most one holder is inside, if the strategy promises it
	Served     Invariant = "service" // while buyers wait and units are left, buyers are being served
)

// Broken is a violated invariant, with the time when the violation was first seen.
type Broken struct {
	Invariant Invariant `json:"invariant"`
	At        float64   `json:"t_ms"`
	Text      string    `json:"text"`

	// Message is the Text with its format and arguments, for a translation.
	Message message.Message `json:"message,omitzero"`
}

// copy returns a copy of l. What its fields refer to is replaced or appended to, but never changed.
func (l *Live) copy() *Live {
	if l == nil {
		return nil
	}
	c := *l
	return &c
}

// see records a point and the invariants that it violates.
func (l *Live) see(p Point) {
	l.Point = &p
	if p.Sold > l.Stock {
		l.broke(StockHolds, p.Audited, message.Newf("%d units sold of %d", p.Sold, l.Stock))
	}
	if l.exclusive && p.MaxHolders > 1 {
		l.broke(OneHolder, p.T, message.Newf("%d holders inside at once", p.MaxHolders))
	}
}

// happened records the faults so far, and a violation if buyers were no longer served.
func (l *Live) happened(now bench.Live) {
	l.Faults = append([]bench.Fault{}, now.Faults...)
	u := now.Unserved
	if u == nil {
		return
	}
	said := message.Newf("nobody was served after %.0f ms; %d requests waited for %d units",
		figures.Milliseconds(u.Since), u.Waiting, u.Left)
	l.broke(Served, figures.Milliseconds(u.At), said)
}

// broke records the first violation of each invariant.
func (l *Live) broke(what Invariant, at float64, said message.Message) {
	known := func(b Broken) bool { return b.Invariant == what }
	if !slices.ContainsFunc(l.Broken, known) {
		l.Broken = append(l.Broken, Broken{what, at, said.String(), said})
	}
}

// pointOf returns the bench's sample as a Point.
func pointOf(l bench.Live) Point {
	p := Point{
		T: figures.Milliseconds(l.Elapsed), Waiting: l.Waiting,
		Served: l.Served, SoldOut: l.SoldOut, Failed: l.Failed, Unknown: l.Unknown,
		Holders: l.Holders, MaxHolders: l.MaxHolders, Audited: -1,
	}
	if l.Audited > 0 {
		p.Audited, p.Remaining, p.Sold = figures.Milliseconds(l.Audited), l.Stock.Remaining, l.Stock.Sold
	}
	return p
}

// lastPoint returns the last point of a finished row. The remaining stock follows from
// the definition of lost updates.
func lastPoint(row report.Row) Point {
	return Point{
		T: row.Wall, Served: row.Served, SoldOut: row.SoldOut, Failed: row.Failed, Unknown: row.Unknown,
		Holders: -1, MaxHolders: row.MaxHolders, Audited: row.Wall,
		Remaining: row.Stock - row.Sold + row.LostUpdates, Sold: row.Sold,
	}
}
