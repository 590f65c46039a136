package figures

import (
	"cmp"
	"slices"
	"time"
)

// Span is the time one holder spent inside a critical section.
type Span struct{ From, To time.Time }

// Inside is called with +1 when a holder enters the critical section of a key, and with -1 when it
// leaves. Both calls are within its span.
type Inside func(key string, step int)

// Enter begins a span, and returns a function that ends it. A nil Inside is not called.
func (i Inside) Enter(key string) (leave func() Span) {
	from := time.Now()
	if i == nil {
		return func() Span { return Span{from, time.Now()} }
	}
	i(key, +1)
	return func() Span {
		i(key, -1)
		return Span{from, time.Now()}
	}
}

// edge is the beginning or the end of a span.
type edge struct {
	at   int64 // in Unix nanoseconds
	step int
}

// MaxHolders returns the largest number of spans that overlap at any moment. This evidence does not
// depend on the lock. Spans that only touch do not overlap.
func MaxHolders(spans []Span) (most int) {
	var edges []edge
	for _, s := range spans {
		edges = append(edges, edge{s.From.UnixNano(), +1}, edge{s.To.UnixNano(), -1})
	}
	slices.SortFunc(edges, edge.compare)
	inside := 0
	for _, e := range edges {
		inside += e.step
		most = max(most, inside)
	}
	return most
}

// compare orders edges by time. At the same time, an end comes before a beginning.
func (e edge) compare(f edge) int {
	return cmp.Or(cmp.Compare(e.at, f.at), cmp.Compare(e.step, f.step))
}
