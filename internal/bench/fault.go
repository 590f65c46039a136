package bench

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
	"oversell/internal/fleet"
)

// FaultKind says what kind of fault was injected.
type FaultKind string

// The kinds of faults.
const (
	Killed  FaultKind = "killed"  // a holder's process was killed
	Stopped FaultKind = "stopped" // a holder's process was stopped for a while
	CutOff  FaultKind = "cut_off" // a holder's process was cut off from Redis for a while
	Slow    FaultKind = "slow"    // a holder works for longer than the lease
	Late    FaultKind = "late"    // a holder releases after the end of the lease
)

// Fault is a fault that was injected into a row, as it happened.
type Fault struct {
	Kind FaultKind `json:"kind"`
	At   float64   `json:"t_ms"` // when it began, measured from the common start

	// Until is the end of the fault. For a holder that is slow or late, it may be in the future. It
	// is 0 if the fault has not ended, as after a kill.
	Until float64 `json:"until_ms"`
}

// faults holds the faults of one row. It is safe for concurrent use.
type faults struct {
	mu  sync.Mutex
	all []span
}

// span is a fault with wall-clock times.
type span struct {
	kind      FaultKind
	at, until time.Time
	seam      fleet.Seam // where a process was killed; "": in the work of a holder
}

// add records a fault that begins now, and returns its index.
func (f *faults) add(s span) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.at = time.Now()
	f.all = append(f.all, s)
	return len(f.all) - 1
}

// begin records that a fault begins now. Call end when it is over.
func (f *faults) begin(kind FaultKind) (end func()) {
	n := f.add(span{kind: kind})
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.all[n].until = time.Now()
	}
}

// kill kills a process at a seam, or in the work of a holder.
func (f *faults) kill(m *fleet.Member, at fleet.Seam) {
	f.add(span{kind: Killed, seam: at})
	m.Kill()
}

// atSeams returns the report of the kills at seams, or nil if there were none. The time settled is
// when all accepted orders were written.
func (f *faults) atSeams(settled time.Time, agree bool) *report.Kills {
	f.mu.Lock()
	defer f.mu.Unlock()
	var k report.Kills
	var last time.Time
	for _, s := range f.all {
		if s.seam != "" {
			k.KilledAt, last = append(k.KilledAt, string(s.seam)), s.at
		}
	}
	if len(k.KilledAt) == 0 {
		return nil
	}
	if agree {
		k.AgreesAfterKill = new(max(0, settled.Sub(last).Seconds()))
	}
	return &k
}

// after returns the faults with their times since start, the earliest first.
func (f *faults) after(start time.Time) []Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Fault
	for _, s := range f.all {
		one := Fault{Kind: s.kind, At: figures.Milliseconds(s.at.Sub(start))}
		if !s.until.IsZero() {
			one.Until = figures.Milliseconds(s.until.Sub(start))
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
	return all
}
