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

// see records a sample of a row with a stock, and the invariants that it violates.
func (s *Series) see(p Point, stock int64) {
	s.last = &p
	if p.Sold > stock {
		s.broke(StockHolds, p.Audited, message.Newf("%d units sold of %d", p.Sold, stock))
	}
	if s.exclusive && p.MaxHolders > 1 {
		s.broke(OneHolder, p.T, message.Newf("%d holders inside at once", p.MaxHolders))
	}
}

// happened records the faults so far, and a violation if buyers were no longer served.
func (s *Series) happened(now bench.Live) {
	s.Faults = append([]bench.Fault{}, now.Faults...)
	u := now.Unserved
	if u == nil {
		return
	}
	said := message.Newf("nobody was served after %.0f ms; %d requests waited for %d units",
		figures.Milliseconds(u.Since), u.Waiting, u.Left)
	s.broke(Served, figures.Milliseconds(u.At), said)
}

// broke records the first violation of each invariant.
func (s *Series) broke(what Invariant, at float64, said message.Message) {
	known := func(b Broken) bool { return b.Invariant == what }
	if !slices.ContainsFunc(s.Broken, known) {
		s.Broken = append(s.Broken, Broken{what, at, said.String(), said})
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
