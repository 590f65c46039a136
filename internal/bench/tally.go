package bench

import (
	"net/http"
	"sync"
	"time"

	"oversell/internal/figures"
)

// tally counts the outcomes of a row as they become known. Its size does not depend on
// their number, except for what buyers were told of their orders. It is safe for
// concurrent use.
type tally struct {
	// sale says that the requests are purchases: what the buyers were told is kept.
	sale bool

	// earliest is a time before which no request in flight was sent; nil: unknown.
	earliest func() time.Time

	mu       sync.Mutex
	start    time.Time
	served   int64
	soldOut  int64
	failed   int64
	unknown  map[int]int64 // by target
	reasons  map[string]int64
	holders  figures.Overlap
	full     int       // number of unsettled holds from which to settle
	left     time.Time // when the last holder left
	latency  latencies
	service  latencies
	wait     latencies     // of requests that entered the critical section, until they did
	timeline timeline      // of served requests
	untimely time.Duration // longest delay between planned and sent
	answers  []answer      // of a sale
	cutOff   []int         // of a sale: requests with an unknown outcome
	unkept   int64         // answers and cut-off requests beyond maxKept
}

// answer is what a buyer was told of an order.
type answer struct {
	request  int
	order    string
	quantity int64
	accepted bool // the order was not written yet
}

// maxKept bounds the answers and the cut-off requests that are kept. A sale of the whole
// stock has fewer orders, even if every second answer is a replay.
const maxKept = 2*maxStock + 2*MaxRequests

// manySpans is the number of unsettled spans from which to settle them.
const manySpans = 1 << 16

// newTally returns a tally for requests that take at most the limit.
func newTally(limit time.Duration) *tally {
	return &tally{
		unknown: make(map[int]int64), reasons: make(map[string]int64), full: manySpans,
		latency: newLatencies(limit), service: newLatencies(limit), wait: newLatencies(limit),
		timeline: timeline{bin: firstBin},
	}
}

// begin sets the start of the load.
func (t *tally) begin(start time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.start, t.left = start, start
}

// add counts one outcome.
func (t *tally) add(r reply) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !r.learned():
		t.unknown[r.Target]++
		t.reasons[r.Code]++
		t.keepCutOff(r)
	case r.Status == http.StatusOK || r.Status == http.StatusAccepted:
		t.served++
		t.timeline.add(r.At)
		t.keepAnswer(r)
	case r.Code == "sold_out":
		t.soldOut++
	default:
		t.failed++
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
		t.hold(s)
	}
}

// keepAnswer keeps what a buyer was told. The caller has locked mu.
func (t *tally) keepAnswer(r reply) {
	switch {
	case !t.sale:
	case len(t.answers) == maxKept:
		t.unkept++
	default:
		t.answers = append(t.answers, answer{r.Request, r.Order, r.Quantity, r.Status == http.StatusAccepted})
	}
}

// keepCutOff notes that a buyer was told nothing. The caller has locked mu.
func (t *tally) keepCutOff(r reply) {
	switch {
	case !t.sale:
	case len(t.cutOff) == maxKept:
		t.unkept++
	default:
		t.cutOff = append(t.cutOff, r.Request)
	}
}

// hold adds a hold. The caller has locked mu.
func (t *tally) hold(s figures.Span) {
	t.holders.Add(s)
	if s.To.After(t.left) {
		t.left = s.To
	}
	if t.earliest != nil && t.holders.Unsettled() >= t.full {
		t.holders.Settle(t.earliest())
		t.full = max(manySpans, 2*t.holders.Unsettled())
	}
}

// elapsed is the time since the load began, or 0 before.
func (t *tally) elapsed() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start.IsZero() {
		return 0
	}
	return time.Since(t.start)
}

// mostHolders is the most holders at once that are known so far.
func (t *tally) mostHolders() int {
	t.mu.Lock()
	holders := t.holders.Clone()
	t.mu.Unlock()
	return holders.Max()
}

// tell fills in the outcomes so far.
func (t *tally) tell(now *Live) {
	now.Elapsed = t.elapsed()
	t.mu.Lock()
	defer t.mu.Unlock()
	now.Served, now.SoldOut, now.Failed = t.served, t.soldOut, t.failed
	for _, n := range t.unknown {
		now.Unknown += n
	}
}
