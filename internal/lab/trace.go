package lab

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"oversell/internal/message"
)

// maxTrace is the length from which on a trace accepts no more commands. A trace therefore shows
// only the beginning of a retry storm.
const maxTrace = 400

// trace collects the events of a cell. It is safe for concurrent use.
type trace struct {
	start time.Time

	mu      sync.Mutex
	entries []*Event
	held    []*Event // overlaps that judge adds to entries
	left    int      // commands left out because the trace was full
	there   []Key    // the keys at the beginning
}

func (t *trace) ms() float64 {
	return float64(time.Since(t.start).Microseconds()) / 1000
}

func (t *trace) moment(at float64) time.Time {
	return t.start.Add(time.Duration(math.Round(at*1000)) * time.Microsecond)
}

// add appends an event that happens now.
func (t *trace) add(actor string, kind Kind, said message.Message) *Event {
	e := newEvent(t.ms(), actor, kind, said)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = append(t.entries, &e)
	return &e
}

// overlap records that the actor has the lock while others have it. The trace shows the overlap
// only if judge is called.
func (t *trace) overlap(actor string, others []string) {
	said := message.Newf("%s has the lock, and %s too", actor, list(others))
	t.mu.Lock()
	defer t.mu.Unlock()
	e := newEvent(t.ms(), actor, Break, said)
	t.held = append(t.held, &e)
}

// judge adds the overlaps to the trace, because they decide the outcome of the cell.
func (t *trace) judge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = append(t.entries, t.held...)
	t.held = nil
}

// mark returns a function that removes all events added to the trace since mark was called.
func (t *trace) mark() (cut func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	there, left := slices.Clone(t.entries), t.left
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.entries = slices.DeleteFunc(t.entries, func(e *Event) bool { return !slices.Contains(there, e) })
		t.left = left
	}
}

// begin appends a command, or returns nil if the trace is full.
func (t *trace) begin(actor, text string) *Event {
	t.mu.Lock()
	full := len(t.entries) >= maxTrace
	if full {
		t.left++
	}
	t.mu.Unlock()
	if full {
		return nil
	}
	return t.add(actor, Command, message.Text(text))
}

// change applies f to an event while the trace is locked. E is nil if the event was left out.
func (t *trace) change(e *Event, f func(*Event)) {
	if e == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f(e)
}

// now sets the time of an event to the current time, and returns that time. The time of a command
// is when Redis receives it. E is nil if the event was left out.
func (t *trace) now(e *Event) float64 {
	if e == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e.At = t.ms()
	t.entries = append(slices.DeleteFunc(t.entries, func(other *Event) bool { return other == e }), e)
	return e.At
}

// drop removes an event, such as a command that Redis did not execute.
func (t *trace) drop(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.entries = slices.DeleteFunc(t.entries, func(other *Event) bool { return other == e })
}

// events returns the collected events in chronological order.
func (t *trace) events() []Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Event, 0, len(t.entries)+1)
	for _, e := range t.entries {
		out = append(out, *e)
	}
	if t.left > 0 {
		rest := newEvent(t.ms(), "", Note, message.Newf("%d more commands, not shown", t.left))
		rest.LeftOut = true
		out = append(out, rest)
	}
	slices.SortStableFunc(out, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	if len(out) > 0 && len(t.there) > 0 {
		out[0].Keys = append(slices.Clone(t.there), out[0].Keys...)
	}
	return out
}

func (t *trace) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.left > 0
}
