package figures

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Span is the time one holder spent inside a critical section.
type Span struct{ From, To time.Time }

// Inside is called when a holder enters the critical section of a key, with +1, and when it
// leaves, with -1, both within its span.
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

// MaxHolders is the most spans that overlap at any moment: evidence that does not come from
// the lock. Spans that only touch do not overlap.
func MaxHolders(spans []Span) int {
	var o Overlap
	for _, s := range spans {
		o.Add(s)
	}
	return o.Max()
}

// Overlap finds the most spans that overlap at any moment. Spans are added in any order.
type Overlap struct {
	edges  []edge // not yet settled
	inside int    // at the end of the settled edges
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

// Unsettled is the number of edges that are kept: at most twice the number of spans.
func (o *Overlap) Unsettled() int { return len(o.edges) }

// Settle says that no span will be added that begins before a time, so that earlier edges
// need not be kept.
func (o *Overlap) Settle(before time.Time) { o.settle(before.UnixNano()) }

// Clone returns a copy, whose Max is that of the spans so far.
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
