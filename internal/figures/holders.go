package figures

import (
	"cmp"
	"slices"
	"time"
)

// Span is the time one holder spent inside a critical section.
type Span struct{ From, To time.Time }

// MaxHolders is the most spans that overlap at any moment: the witness that is
// not the lock. Spans that only touch do not overlap.
func MaxHolders(spans []Span) int {
	type edge struct {
		at   int64
		step int
	}
	edges := make([]edge, 0, 2*len(spans))
	for _, s := range spans {
		edges = append(edges, edge{s.From.UnixNano(), +1}, edge{s.To.UnixNano(), -1})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.step, b.step))
	})
	inside, most := 0, 0
	for _, e := range edges {
		inside += e.step
		most = max(most, inside)
	}
	return most
}
