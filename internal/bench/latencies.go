package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"oversell/internal/bench/report"
)

// latencies is a histogram of durations.
type latencies struct {
	*hdrhistogram.Histogram
	longest int64 // in µs
}

// newLatencies returns a histogram up to a limit, with three significant digits.
func newLatencies(limit time.Duration) latencies {
	return latencies{Histogram: hdrhistogram.New(1, max(2, limit.Microseconds()), 3)}
}

func (l *latencies) add(d time.Duration) {
	us := max(0, d.Microseconds())
	l.longest = max(l.longest, us)
	_ = l.RecordValue(min(us, l.HighestTrackableValue())) // it only fails above the bound
}

// ms returns a percentile in ms. The histogram rounds up by a thousandth, except for the
// longest.
func (l *latencies) ms(percentile float64) float64 {
	return float64(min(l.ValueAtQuantile(percentile), l.longest)) / 1e3
}

// percentiles lists the percentiles that are reported.
func percentiles() []float64 {
	return []float64{0, 1, 2.5, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 97.5, 99, 99.9, 100}
}

// curve returns the latencies at the percentiles, or nil if there are none.
func (l *latencies) curve() []float64 {
	if l.TotalCount() == 0 {
		return nil
	}
	ms := []float64{float64(l.Min()) / 1e3}
	for _, p := range percentiles()[1:] {
		ms = append(ms, l.ms(p))
	}
	return ms
}

// percentiles returns the percentiles of a row.
func (t *tally) percentiles(open bool) *report.Percentiles {
	p := &report.Percentiles{P: percentiles(), Latency: t.latency.curve(), Wait: t.wait.curve()}
	if open {
		p.Service = t.service.curve()
	}
	return p
}
