package figures

import (
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

// MaxHolders returns the largest number of spans that overlap at any moment. This evidence does not
// depend on the lock. Spans that only touch do not overlap.
func MaxHolders(spans []Span) (most int) {
	var begins, ends []int64 // in Unix nanoseconds
	for _, s := range spans {
		begins, ends = append(begins, s.From.UnixNano()), append(ends, s.To.UnixNano())
	}
	slices.Sort(begins)
	slices.Sort(ends)
	ended := 0
	for i, at := range begins {
		for ended < len(ends) && ends[ended] <= at {
			ended++
		}
		most = max(most, i+1-ended)
	}
	return most
}
