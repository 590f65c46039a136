package figures

import (
	"slices"
	"time"
)

// Span is the time one holder spent inside a critical section.
type Span struct{ From, To time.Time }

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
