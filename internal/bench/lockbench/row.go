package lockbench

import (
	"math"
	"slices"
	"time"

	"oversell/internal/figures"
	"oversell/internal/fleet"
)

// Row is the result of one contender. Times are in milliseconds.
type Row struct {
	Contender string `json:"contender"`
	Waits     string `json:"waits"` // how a waiter gets the lock
	About     string `json:"about"`

	// Skipped says why the row could not be run; all figures are zero then.
	Skipped string `json:"skipped,omitempty"`

	Contenders  int `json:"contenders"`
	Processes   int `json:"processes"`
	Served      int `json:"served"`       // deducted and unlocked
	Told        int `json:"told"`         // got an error of the lock or of Redis
	NeverServed int `json:"never_served"` // got nothing before the end of the wait
	Killed      int `json:"killed"`       // died with their process, without an outcome

	// Throughput is the number served, divided by the time from the start to the last
	// release.
	Throughput float64 `json:"deducts_per_s"`

	// Commands is the number of commands that the server counted from the start to the
	// last outcome, including those inside scripts, per contender served.
	Commands float64 `json:"commands_per_deduct"`

	// The waits of contenders that entered, from the start.
	P50 float64 `json:"wait_p50_ms"`
	P99 float64 `json:"wait_p99_ms"`
	Max float64 `json:"wait_max_ms"`

	// Spread is the longest wait divided by the median. All begin at once, so it is 2 at a
	// steady pace.
	Spread float64 `json:"wait_max_to_p50"`

	// Jain is how evenly the processes had deducts while all of them contended; 1 is even.
	// It is 0 with one process, or if nobody was served in that time.
	Jain    float64 `json:"jain"`
	Deducts []int   `json:"deducts"` // of each process in that time

	// MaxHolders is the most holders at one moment. In MaxHoldersRunning a stopped holder
	// only counts until then: no lock can prevent what it does afterwards.
	MaxHolders        int `json:"max_holders"`
	MaxHoldersRunning int `json:"max_holders_running"`

	// LostUpdates is how many deducts the counter does not show. Unsure is how many
	// contenders that were not served may have deducted: without a loss, LostUpdates is
	// between -Unsure and 0.
	LostUpdates int `json:"lost_updates"`
	Unsure      int `json:"unsure"`

	Lost      int            `json:"lost_leases"`               // that had expired at their release, according to the lock
	Reasons   map[string]int `json:"reasons,omitempty"`         // refused contenders by error
	Releases  map[string]int `json:"failed_releases,omitempty"` // releases that failed, by their error
	Idle      float64        `json:"idle_ms"`                   // from the last release to the end of the row, if somebody still waited
	Stalled   float64        `json:"stalled_ms"`                // longest stall that was not injected
	Disturbed *Disturbed     `json:"disturbed,omitempty"`
	Verdict   Verdict        `json:"verdict"`
}

// Disturbed is the faults that were injected; processes are numbered from 1.
type Disturbed struct {
	Killed    int     `json:"killed_process,omitempty"`
	KilledAt  float64 `json:"killed_at_ms,omitempty"`
	Stopped   int     `json:"stopped_process,omitempty"`
	StoppedAt float64 `json:"stopped_at_ms,omitempty"`
	Resumed   float64 `json:"resumed_at_ms,omitempty"`
	Missed    string  `json:"missed,omitempty"` // why a fault was not injected
}

// Verdict sums up a row.
type Verdict string

// The verdicts, the worst first.
const (
	Skipped   Verdict = "skipped"
	Broken    Verdict = "broken"  // two held it at once, or updates were lost
	Late      Verdict = "late"    // the same, but only by a process that had been stopped
	Starved   Verdict = "starved" // some were never served and never refused
	GaveUp    Verdict = "gave up" // some were refused
	AllServed Verdict = "ok"

	// NotComparable is no verdict: see figures.NotComparable.
	NotComparable = Verdict(figures.NotComparable)
)

// member is one process of a row, as the runner sees it.
type member struct {
	*fleet.Member
	contenders int
	slots      slots
	tally      tally // once it is over
}

// ended is a finished row.
type ended struct {
	contender Contender
	embedded  bool // whether the Redis was an embedded one
	fleet     *fleet.Fleet
	members   []*member
	hits      []hit
	missed    error
	start     time.Time // the common start
	end       time.Time // when the last outcome was known or awaited
	commands  int64     // from the start to the end
	initial   int       // of the counter
	counter   int       // at the end
}

// row computes the figures.
func (e ended) row() Row {
	r := Row{
		Contender: e.contender.Name, Waits: e.contender.Waits, About: e.contender.About,
		Processes: len(e.members),
	}
	var all tally
	for _, m := range e.members {
		r.Contenders += m.contenders
		all.add(m.tally)
	}
	r.Reasons, r.Releases, r.Lost = all.Told, all.Release, all.Lost
	if e.fleet != nil {
		r.Stalled = figures.Milliseconds(e.fleet.Stalled())
	}
	e.outcomes(&r)
	e.fairness(&r)
	e.holders(&r)
	r.LostUpdates = r.Served - (e.initial - e.counter)
	r.Disturbed = e.disturbed()
	if r.Verdict = r.verdict(); !e.contender.comparable(e.embedded) {
		r.Verdict = NotComparable
	}
	return r
}

// each calls f for all contenders.
func (e ended) each(f func(m *member, s slip)) {
	for _, m := range e.members {
		for i := range m.contenders {
			f(m, m.slots.slip(i))
		}
	}
}

// outcomes counts the outcomes, and computes waits and throughput.
func (e ended) outcomes(r *Row) {
	var waits []time.Duration
	last := e.start // release
	e.each(func(m *member, s slip) {
		if !s.from.IsZero() {
			waits = append(waits, s.from.Sub(e.start))
		}
		switch {
		case s.state == stateServed || s.state == stateWritten && m.Killed.Load(): // it died before it could report
			r.Served++
			if s.end.After(last) {
				last = s.end
			}
		case s.state == stateTold:
			r.Told++
		case s.state == stateUnsure:
			r.Told++
			r.Unsure++
		case m.Killed.Load() && s.state == stateInside:
			r.Killed++
			r.Unsure++
		case m.Killed.Load():
			r.Killed++
		default:
			r.NeverServed++
		}
	})
	if took := last.Sub(e.start).Seconds(); took > 0 {
		r.Throughput = float64(r.Served) / took
	}
	if r.Served > 0 {
		r.Commands = float64(e.commands) / float64(r.Served)
	}
	if r.NeverServed > 0 {
		r.Idle = figures.Milliseconds(e.end.Sub(last))
	}
	slices.Sort(waits)
	r.P50, r.P99, r.Max = figures.Milliseconds(quantile(waits, 0.50)), figures.Milliseconds(quantile(waits, 0.99)), figures.Milliseconds(quantile(waits, 1))
	if r.P50 > 0 {
		r.Spread = r.Max / r.P50
	}
}

// quantile returns the q-quantile of the sorted values, or 0 if there are none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// fairness counts each process' deducts until the first process has no waiters left, or
// until a fault. After that the others have the lock for themselves; at the end everybody
// has had it once, so that the index of the whole row is always 1.
func (e ended) fairness(r *Row) {
	contended := e.end
	for _, h := range e.hits {
		contended = earlier(contended, h.from)
	}
	for _, m := range e.members {
		var last time.Time // time at which one of m's contenders still waited
		for i := range m.contenders {
			s := m.slots.slip(i)
			switch {
			case !s.from.IsZero():
				last = later(last, s.from)
			case !s.end.IsZero():
				last = later(last, s.end)
			default:
				last = e.end
			}
		}
		contended = earlier(contended, last)
	}
	for _, m := range e.members {
		n := 0
		for i := range m.contenders {
			s := m.slots.slip(i)
			if !s.from.IsZero() && !s.from.After(contended) {
				n++
			}
		}
		r.Deducts = append(r.Deducts, n)
	}
	if len(e.members) > 1 {
		r.Jain = Jain(r.Deducts)
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// holders counts how many were inside at once.
func (e ended) holders(r *Row) {
	var all, running []figures.Span
	e.each(func(m *member, s slip) {
		if s.from.IsZero() {
			return
		}
		span := figures.Span{From: s.from, To: s.to}
		if s.to.IsZero() {
			span.To = e.end // it never left, or died inside
		}
		cut := span
		for _, h := range e.hits {
			switch {
			case h.member != m:
			case h.killed() && s.to.IsZero():
				span.To = later(span.From, h.from)
				cut = span
			case !h.killed() && !span.From.After(h.still) && span.To.After(h.still):
				cut.To = later(span.From, h.from)
			}
		}
		all, running = append(all, span), append(running, cut)
	})
	r.MaxHolders, r.MaxHoldersRunning = figures.MaxHolders(all), figures.MaxHolders(running)
}

// disturbed returns the faults of the row, or nil.
func (e ended) disturbed() *Disturbed {
	if len(e.hits) == 0 && e.missed == nil {
		return nil
	}
	var d Disturbed
	for _, h := range e.hits {
		number := slices.Index(e.members, h.member) + 1
		if h.killed() {
			d.Killed, d.KilledAt = number, figures.Milliseconds(h.from.Sub(e.start))
		} else {
			d.Stopped, d.StoppedAt, d.Resumed = number, figures.Milliseconds(h.from.Sub(e.start)), figures.Milliseconds(h.to.Sub(e.start))
		}
	}
	if e.missed != nil {
		d.Missed = e.missed.Error()
	}
	return &d
}

func (r Row) verdict() Verdict {
	lossless := -r.Unsure <= r.LostUpdates && r.LostUpdates <= 0
	switch {
	case r.MaxHoldersRunning > 1 || !lossless && r.MaxHolders < 2:
		return Broken
	case r.MaxHolders > 1:
		return Late
	case r.NeverServed > 0:
		return Starved
	case r.Told > 0:
		return GaveUp
	}
	return AllServed
}
