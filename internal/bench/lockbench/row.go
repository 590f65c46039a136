package lockbench

import (
	"cmp"
	"slices"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/fleet"
)

// member is one process of a row, as the runner sees it.
type member struct {
	*fleet.Member
	contenders int
	slots      slots
	slips      []slip // of the contenders, set once the row is over
	tally      tally  // set once the process is over
}

// ended is a finished row.
type ended struct {
	fleet    *fleet.Fleet
	members  []*member
	hits     []hit
	missed   error
	start    time.Time // the common start
	end      time.Time // when the last outcome was known, or the wait for it ended
	commands int64     // number of commands that Redis ran from the start to the end
	initial  int       // initial value of the counter
	counter  int       // value of the counter at the end
}

// row computes the figures.
func (e ended) row() report.Lock {
	r := report.Lock{Processes: len(e.members)}
	var all tally
	for _, m := range e.members {
		r.Contenders += m.contenders
		all.add(&m.tally)
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
	return r
}

// each calls f for all contenders.
func (e ended) each(f func(m *member, s slip)) {
	for _, m := range e.members {
		for _, s := range m.slips {
			f(m, s)
		}
	}
}

// outcomes counts the outcomes, and computes waits and throughput.
func (e ended) outcomes(r *report.Lock) {
	var waits []time.Duration
	start := e.start.UnixNano()
	last := start // the last release
	e.each(func(m *member, s slip) {
		if s.from != 0 {
			waits = append(waits, time.Duration(s.from-start))
		}
		switch {
		case s.state == stateServed || s.state == stateWritten && m.Killed.Load(): // it died before it could report
			r.Served++
			last = max(last, s.end)
		case s.state == stateTold:
			r.Told++
		case s.state == stateUnsure:
			r.Told++
			r.Unsure++
		default:
			if m.Killed.Load() {
				r.Killed++
			} else {
				r.NeverServed++
			}
			if s.state == stateInside || s.state == stateWritten {
				r.Unsure++
			}
		}
	})
	if took := time.Duration(last - start).Seconds(); took > 0 {
		r.Throughput = float64(r.Served) / took
	}
	if r.Served > 0 {
		r.Commands = float64(e.commands) / float64(r.Served)
	}
	if r.NeverServed > 0 {
		r.Idle = figures.Milliseconds(time.Duration(e.end.UnixNano() - last))
	}
	r.P50, r.P99, r.Max = bench.Quantile(waits, 0.50), bench.Quantile(waits, 0.99), bench.Quantile(waits, 1)
	if r.P50 > 0 {
		r.Spread = r.Max / r.P50
	}
}

// fairness counts each process's deductions until the first process has no waiters left, or until a
// fault. After that, the other processes have the lock to themselves. At the end of the row, every
// contender has had the lock once, so the index of the whole row would always be 1.
func (e ended) fairness(r *report.Lock) {
	end := e.end.UnixNano()
	contended := end
	for _, h := range e.hits {
		contended = min(contended, h.from.UnixNano())
	}
	for _, m := range e.members {
		last := int64(0) // latest time at which one of m's contenders still waited
		for _, s := range m.slips {
			last = max(last, cmp.Or(s.from, s.end, end))
		}
		contended = min(contended, last)
	}
	for _, m := range e.members {
		n := 0
		for _, s := range m.slips {
			if s.from != 0 && s.from <= contended {
				n++
			}
		}
		r.Deducts = append(r.Deducts, n)
	}
	if len(e.members) > 1 {
		r.Jain = jain(r.Deducts)
	}
}

// jain returns how evenly n shares are distributed: the square of the sum, divided by n
// times the sum of the squares. It is 1 if all are equal, 1/n if one has everything, and
// k/n if k are equal and the others have nothing. By convention it is 0 if all are 0.
//
// Source: R. Jain, D. Chiu, W. Hawe, "A Quantitative Measure of Fairness and
// Discrimination for Resource Allocation in Shared Computer Systems", Digital
// Equipment Corporation, DEC-TR-301, 1984.
func jain(given []int) float64 {
	var sum, squares float64
	for _, n := range given {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(given)) * squares)
}

// holders computes the largest number of contenders that were inside at once.
func (e ended) holders(r *report.Lock) {
	var all, running []figures.Span
	e.each(func(m *member, s slip) {
		if s.from == 0 {
			return
		}
		to := cmp.Or(s.to, e.end.UnixNano()) // 0: it never left, or died inside
		cut := to
		for _, h := range e.hits {
			began := max(s.from, h.from.UnixNano())
			still := h.from.Add(settle).UnixNano() // from then on it was certainly stopped
			switch {
			case h.member != m:
			case h.killed() && s.to == 0:
				to, cut = began, began
			case !h.killed() && s.from <= still && to > still:
				cut = began
			}
		}
		from := time.Unix(0, s.from)
		all = append(all, figures.Span{From: from, To: time.Unix(0, to)})
		running = append(running, figures.Span{From: from, To: time.Unix(0, cut)})
	})
	r.MaxHolders, r.MaxHoldersRunning = figures.MaxHolders(all), figures.MaxHolders(running)
}

// disturbed returns the faults of the row, or nil.
func (e ended) disturbed() *report.Disturbed {
	if len(e.hits) == 0 && e.missed == nil {
		return nil
	}
	var d report.Disturbed
	for _, h := range e.hits {
		number := slices.Index(e.members, h.member) + 1
		if h.killed() {
			d.Killed, d.KilledAt = number, figures.Milliseconds(h.from.Sub(e.start))
		} else {
			d.Stopped, d.StoppedAt = number, figures.Milliseconds(h.from.Sub(e.start))
			d.Resumed = figures.Milliseconds(h.to.Sub(e.start))
		}
	}
	if e.missed != nil {
		d.Missed = e.missed.Error()
	}
	return &d
}
