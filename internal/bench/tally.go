package bench

import (
	"net/http"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
)

// tally counts the outcomes of a row as they become known. It keeps a record of each order that a
// buyer was told of, and of each holder's time inside. Few records are added once an item is sold
// out. It is safe for concurrent use.
type tally struct {
	// sale says that the requests are purchases, so that the replies to buyers are kept.
	sale bool

	mu    sync.Mutex
	start time.Time
	counts
	reasons  map[string]int64 // of failed and unknown requests
	latency  latencies
	service  latencies
	wait     latencies     // wait for the critical section, of requests that entered it
	timeline timeline      // of served requests
	untimely time.Duration // longest delay of a request after its planned time
	answers  []toldOrder   // of a sale
	cutOff   []int         // of a sale: requests with an unknown outcome
	unkept   int64         // answers and cut-off requests beyond maxKept

	items []itemTally                  // one unless they are replaced before begin
	of    func(request int) (item int) // the index of the item that a request is for
}

// itemTally counts the outcomes of the requests for one item.
type itemTally struct {
	counts
	holders []figures.Span
	left    time.Time // when the last holder left
}

// counts holds the numbers of outcomes.
type counts struct {
	served, soldOut, failed int64
	unknown                 map[int]int64 // by target
	servedAt                time.Duration // when the last buyer was served, since the start
}

func (c *counts) count(r reply) {
	switch {
	case !r.learned():
		if c.unknown == nil {
			c.unknown = make(map[int]int64)
		}
		c.unknown[r.Target]++
	case r.served():
		c.served++
		c.servedAt = max(c.servedAt, r.At)
	case r.Code == "sold_out":
		c.soldOut++
	default:
		c.failed++
	}
}

// toldOrder records what a buyer was told about an order.
type toldOrder struct {
	request  int
	order    string
	quantity int64
	accepted bool // the order was not written yet
}

// maxKept is the maximum number of answers, and of cut-off requests, that are kept. A sale of the
// whole stock has fewer orders, even if every second answer is a replay.
const maxKept = 2*maxStock + 2*MaxRequests

// newTally returns a tally for requests that take at most the limit.
func newTally(limit time.Duration) *tally {
	return &tally{
		reasons: make(map[string]int64),
		latency: newLatencies(limit), service: newLatencies(limit), wait: newLatencies(limit),
		timeline: timeline{bin: firstBin},
		items:    make([]itemTally, 1), of: func(int) int { return 0 },
	}
}

// begin sets the start of the load.
func (t *tally) begin(start time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start = start
	for i := range t.items {
		t.items[i].left = start
	}
}

// add counts one outcome.
func (t *tally) add(r reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	item := &t.items[t.of(r.Request)]
	t.keep(r)
	t.count(r)
	item.count(r)
	if r.served() {
		t.timeline.add(r.At)
	} else if r.Code != "sold_out" {
		t.reasons[r.Code]++
	}
	if r.Status != 0 {
		t.latency.add(r.Latency)
		t.service.add(r.Service)
	}
	if r.Code != codeNoConn {
		t.untimely = max(t.untimely, r.Latency-r.Service)
	}
	for i, s := range r.Spans {
		if i == 0 {
			t.wait.add(s.From.Sub(t.start.Add(r.At - r.Latency)))
		}
		item.holders = append(item.holders, s)
		if s.To.After(item.left) {
			item.left = s.To
		}
	}
}

// note keeps what a buyer was told, without counting the outcome.
func (t *tally) note(r reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(r)
}

// keep keeps what a buyer was told about an order. The caller must hold mu.
func (t *tally) keep(r reply) {
	cutOff := !r.learned() || r.CutOff
	switch {
	case !t.sale || !cutOff && !r.served():
	case max(len(t.answers), len(t.cutOff)) == maxKept:
		t.unkept++
	case r.served():
		t.answers = append(t.answers, toldOrder{r.Request, r.Order, r.Quantity, r.Status == http.StatusAccepted})
	default:
		t.cutOff = append(t.cutOff, r.Request)
	}
}

// elapsed returns the time since the load began, or 0 before the start.
func (t *tally) elapsed() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start.IsZero() {
		return 0
	}
	return time.Since(t.start)
}

// mostHolders returns the largest known number of holders of one item at the same time.
func (t *tally) mostHolders() (most int) {
	for i := range t.items {
		t.mu.Lock()
		holders := t.items[i].holders // holders that are added later are not in this slice
		t.mu.Unlock()
		most = max(most, figures.MaxHolders(holders))
	}
	return most
}

// tell fills in the outcomes so far, and returns the start of the load.
func (t *tally) tell(now *Live) (start time.Time) {
	now.Elapsed = t.elapsed()
	t.mu.Lock()
	defer t.mu.Unlock()
	now.Served, now.SoldOut, now.Failed, now.ServedAt = t.served, t.soldOut, t.failed, t.servedAt
	for _, n := range t.unknown {
		now.Unknown += n
	}
	return t.start
}

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
	_ = l.RecordValue(min(us, l.HighestTrackableValue())) // it fails only above the bound
}

// ms returns a percentile in ms. The histogram rounds values up by at most a thousandth. The
// longest duration is exact.
func (l *latencies) ms(percentile float64) float64 {
	return float64(min(l.ValueAtQuantile(percentile), l.longest)) / 1e3
}

// percentiles lists the percentiles that are reported.
func percentiles() []float64 {
	return []float64{0, 1, 2.5, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 97.5, 99,
		99.9, 100}
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

const (
	firstBin = 10 * time.Millisecond
	maxBins  = 240
)

// timeline counts events in bins of equal length. When there are too many bins, it merges them in
// pairs.
type timeline struct {
	bin    time.Duration
	counts []int64
}

func (t *timeline) add(at time.Duration) {
	for at >= t.bin*maxBins {
		half := make([]int64, (len(t.counts)+1)/2)
		for i, n := range t.counts {
			half[i/2] += n
		}
		t.bin, t.counts = 2*t.bin, half
	}
	n := int(max(0, at) / t.bin)
	for len(t.counts) <= n {
		t.counts = append(t.counts, 0)
	}
	t.counts[n]++
}

func (t *timeline) figures() *report.Timeline {
	return &report.Timeline{Bin: figures.Milliseconds(t.bin), Served: t.counts}
}
