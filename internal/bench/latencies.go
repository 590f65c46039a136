package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latencies are some thousands of times how long something took, or millions.
type latencies struct {
	*hdrhistogram.Histogram
	longest int64 // in µs
}

// newLatencies returns room for latencies up to a limit, of which three digits
// are kept.
func newLatencies(limit time.Duration) latencies {
	return latencies{Histogram: hdrhistogram.New(1, max(2, limit.Microseconds()), 3)}
}

func (l *latencies) add(d time.Duration) {
	us := max(0, d.Microseconds())
	l.longest = max(l.longest, us)
	_ = l.RecordValue(min(us, l.HighestTrackableValue())) // it fails above the bound only
}

// ms is the latency that so many in a hundred do not exceed. The histogram
// rounds up by a thousandth, the longest is known as it is.
func (l *latencies) ms(percentile float64) float64 {
	return float64(min(l.ValueAtQuantile(percentile), l.longest)) / 1e3
}

// Percentiles are how long things took, as far as they are known of a row: what
// so many in a hundred did not exceed.
type Percentiles struct {
	P       []float64 `json:"p"`
	Latency []float64 `json:"latency_ms"`
	Service []float64 `json:"service_ms,omitempty"` // of an open load
	Wait    []float64 `json:"wait_ms,omitempty"`    // until they came into the section, of those that did
}

// percentiles are those that are kept.
func percentiles() []float64 {
	return []float64{0, 1, 2.5, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 97.5, 99, 99.9, 100}
}

// curve is the latencies at the percentiles; nil if there are none.
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

// percentiles are those of a row.
func (t *tally) percentiles(open bool) *Percentiles {
	p := &Percentiles{P: percentiles(), Latency: t.latency.curve(), Wait: t.wait.curve()}
	if open {
		p.Service = t.service.curve()
	}
	return p
}
