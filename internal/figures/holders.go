package figures

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Span is the time one holder spent inside a critical section.
type Span struct{ From, To time.Time }

// Inside hears of one who comes into the critical section of a key, +1, and of one
// who goes, -1. Both are within the span that is told of it in the end.
type Inside func(key string, step int)

// Enter begins a span, and returns what ends it. A nil Inside hears of nothing.
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

// MaxHolders is the most spans that overlap at any moment: the witness that is
// not the lock. Spans that only touch do not overlap.
func MaxHolders(spans []Span) int {
	var o Overlap
	for _, s := range spans {
		o.Add(s)
	}
	return o.Max()
}

// Overlap finds the most spans that overlap at any moment, of spans that become
// known one after the other, in any order.
type Overlap struct {
	edges  []edge // not yet settled
	inside int    // at the end of what is settled
	most   int
}

// edge is where a span begins or ends.
type edge struct {
	at   int64 // in Unix nanoseconds
	step int
}

// Add adds a span.
func (o *Overlap) Add(s Span) {
	o.edges = append(o.edges, edge{s.From.UnixNano(), +1}, edge{s.To.UnixNano(), -1})
}

// Unsettled is how much is kept of the spans: twice their number, or less.
func (o *Overlap) Unsettled() int { return len(o.edges) }

// Settle says that no span will be added that begins before a time. What
// happened before it need not be kept then.
func (o *Overlap) Settle(before time.Time) { o.settle(before.UnixNano()) }

// Clone returns a copy, whose Max is what it is of the spans that are known by now.
func (o *Overlap) Clone() *Overlap {
	return &Overlap{edges: slices.Clone(o.edges), inside: o.inside, most: o.most}
}

// Max returns the most spans that overlap.
func (o *Overlap) Max() int {
	o.settle(math.MaxInt64)
	return o.most
}

func (o *Overlap) settle(before int64) {
	slices.SortFunc(o.edges, edge.compare)
	n := 0
	for ; n < len(o.edges) && o.edges[n].at < before; n++ {
		o.inside += o.edges[n].step
		o.most = max(o.most, o.inside)
	}
	o.edges = slices.Delete(o.edges, 0, n)
}

// compare puts an end before a beginning at the same time.
func (e edge) compare(f edge) int {
	return cmp.Or(cmp.Compare(e.at, f.at), cmp.Compare(e.step, f.step))
}
