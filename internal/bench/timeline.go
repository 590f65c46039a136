package bench

import (
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
)

const (
	firstBin = 10 * time.Millisecond
	maxBins  = 240
)

// timeline counts events in bins of equal length. When there are too many bins it merges
// every two.
type timeline struct {
	bin    time.Duration
	counts []int64
}

func (t *timeline) add(at time.Duration) {
	for at >= t.bin*maxBins {
		t.halve()
	}
	n := int(max(0, at) / t.bin)
	for len(t.counts) <= n {
		t.counts = append(t.counts, 0)
	}
	t.counts[n]++
}

func (t *timeline) halve() {
	half := make([]int64, (len(t.counts)+1)/2)
	for i, n := range t.counts {
		half[i/2] += n
	}
	t.bin, t.counts = 2*t.bin, half
}

func (t *timeline) figures() *report.Timeline {
	return &report.Timeline{Bin: figures.Milliseconds(t.bin), Served: t.counts}
}
