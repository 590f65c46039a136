package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// A Claim is something that must have happened in a cell before its outcome can be
// "holds". It calls Need with what is missing. Claims are computed from the records of
// the cell, or tried out at its end; they do not use the scenario's own verdict.
type Claim func(w *World)

type deed struct {
	what string
	who  string
}

// What is counted of an actor.
const (
	WasRefused = "refused" // it asked for the lock and was refused
	HasSold    = "sold"    // a unit
)

// Planned is a fault that waits for its command. A cell in which no command matched
// decides nothing.
type Planned struct {
	text     string
	happened atomic.Bool // a command came to which it was done
	Spare    bool        // it may find nothing to do
}

// Record notes once more that something was done by an actor, or happened to it.
func (w *World) Record(what, who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deeds[deed{what, who}]++
}

// Did reports whether that was recorded of an actor.
func (w *World) Did(what, who string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deeds[deed{what, who}] > 0
}

// Times is how often that was recorded of all actors.
func (w *World) Times(what string) (sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for one, n := range w.deeds {
		if one.what == what {
			sum += n
		}
	}
	return sum
}

// plan records a fault that should happen.
func (w *World) plan(text string) *Planned {
	f := &Planned{text: cmp.Or(text, "delayed on its way")}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, f)
	return f
}

// examined is the verdict of a scenario, if all that the scenario requires has happened.
// A lock that grants nothing breaks no promise, and keeps none.
func (w *World) examined(s Scenario, v Verdict) Verdict {
	if v.Outcome != Holds && v.Outcome != Breaks {
		return v
	}
	w.mu.Lock()
	faults := slices.Clone(w.faults)
	w.mu.Unlock()
	for _, f := range faults {
		if !f.Spare && !f.happened.Load() {
			return w.undecided("no command matched the fault: " + f.text)
		}
	}
	if v.Outcome == Breaks {
		return v
	}
	for _, c := range s.Requires {
		if missing := w.missing(c); missing != "" {
			return w.undecided(missing)
		}
	}
	return v
}

func (w *World) missing(c Claim) (why string) {
	defer func() {
		if r := recover(); r != nil {
			why = failed(r).Note
		}
	}()
	c(w)
	return ""
}

func (w *World) undecided(missing string) Verdict {
	w.trace.acquit()
	v := Unknown.Because("%s", "the cell is not decided: "+missing)
	w.trace.add("", Note, v.Note)
	return v
}

// IsLock claims that the lock still works at the end of the cell. Everybody gives back
// what they have; then Y takes the lock, Z is refused, Y gives it back, and Z takes it.
// Without this claim an unlock that does nothing would keep every promise about unlocks,
// and a lock that is granted to everybody would keep every promise about re-entry. If
// the claim is true, the trace does not show how it was checked.
func IsLock(w *World) {
	cut := w.trace.mark()
	w.mu.Lock()
	processes := slices.Clone(w.processes)
	w.mu.Unlock()
	for _, p := range processes {
		p.settle()
	}
	y, z := w.newcomer("Y"), w.newcomer("Z")
	// What the scenario left behind may take a lease to expire.
	Need(y.Obtain(2*w.TTL), "nobody gets the lock after everybody has given it back")
	Need(!z.Try(), "the lock keeps nobody out")
	_ = y.Unlock()
	limit := w.TTL / 2
	Need(z.Obtain(limit), "nobody gets the lock within %s of an unlock", About(limit))
	_ = z.Unlock()
	cut()
}

// newcomer is a holder in a new process, or, if the lock is in memory, in the same
// instance as the others.
func (w *World) newcomer(name string) *Holder {
	w.mu.Lock()
	first := w.processes[0]
	w.mu.Unlock()
	if w.Subject.InProcess {
		return first.Another(name).Holder()
	}
	return w.Start(name).Holder()
}

// settle makes the holders of the process give back what they have, if the process can.
func (p *Process) settle() {
	p.mu.Lock()
	reachable := !p.killed && !p.cut && !p.refused && p.frozen == nil
	holders := slices.Clone(p.holders)
	p.mu.Unlock()
	for _, h := range holders {
		for reachable && h.owes() {
			ctx, cancel := context.WithTimeout(h.ctx, p.w.TTL)
			_ = h.UnlockIn(ctx)
			cancel()
		}
	}
}

// checkTimeout bounds a check, which takes milliseconds. It is real time.
const checkTimeout = 20 * time.Second

// What a history consists of.
type step string

const (
	stepAcquire step = "acquire" // succeeded
	stepRelease step = "release" // one hold was given back: its holder no longer relies on it
	stepEnd     step = "end"     // all holds ended: by death, or as the holder was told of the loss
)

// operation is the input of one step.
type operation struct {
	step step
	who  string
}

// history records who took the lock and gave it back, and notices two holders at once.
// It is safe for concurrent use.
type history struct {
	mu       sync.Mutex
	clock    int64 // orders the moments, also those of the same time
	ops      []porcupine.Operation
	inside   []string // who holds, once for each hold
	overlaps []string
}

// call returns the moment at which an actor asks.
func (h *history) call() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clock++
	return h.clock
}

// acquired records an acquire that was called at that moment and has succeeded now. It
// returns who else believes that they hold the lock.
func (h *history) acquired(who string, called int64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(operation{stepAcquire, who}, called)
	var others []string
	for _, other := range h.inside {
		if other != who && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	h.inside = append(h.inside, who)
	if len(others) > 0 {
		h.overlaps = append(h.overlaps, fmt.Sprintf("%s took the lock while %s held it", who, list(others)))
	}
	return others
}

// Had reports whether an actor ever had the lock.
func (w *World) Had(who string) bool {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	return slices.ContainsFunc(w.history.ops,
		func(op porcupine.Operation) bool { return op.Input == operation{stepAcquire, who} })
}

// Overlaps tells which actors had the lock at once, one sentence each.
func (w *World) Overlaps() []string {
	w.history.mu.Lock()
	defer w.history.mu.Unlock()
	return slices.Clone(w.history.overlaps)
}

// released records that one hold of who is over.
func (h *history) released(who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(operation{stepRelease, who}, h.clock+1)
	if i := slices.Index(h.inside, who); i >= 0 {
		h.inside = slices.Delete(h.inside, i, i+1)
	}
}

// ended records that all holds of who are over.
func (h *history) ended(who string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.record(operation{stepEnd, who}, h.clock+1)
	h.inside = slices.DeleteFunc(h.inside, func(other string) bool { return other == who })
}

// record appends an operation that ends now. The caller has locked mu.
func (h *history) record(in operation, called int64) {
	h.clock++
	back := h.clock
	h.ops = append(h.ops, porcupine.Operation{Input: in, Call: called, Return: back})
}

// check decides whether a mutex could have behaved as recorded. Porcupine and the
// witness of overlaps must agree: if they do not, or if Porcupine runs out of time,
// nothing is decided.
func (h *history) check() Verdict {
	h.mu.Lock()
	ops, overlaps := slices.Clone(h.ops), slices.Clone(h.overlaps)
	h.mu.Unlock()

	switch result := porcupine.CheckOperationsTimeout(mutexModel, ops, checkTimeout); {
	case result == porcupine.Unknown:
		return Unknown.Because("the history of %d steps was not checked in time", len(ops))
	case (result == porcupine.Ok) != (len(overlaps) == 0):
		return Unknown.Because("the checker says %v, the witness saw %v", result, overlaps)
	case result == porcupine.Illegal:
		return Breaks.Because("%s", overlaps[0])
	}
	return Holds.Because("a mutex would allow the same order; steps: %d", len(ops))
}

type mutexState struct {
	who string
	n   int
}

// mutexModel is a mutex that its owner may take again. It fits locks that are not
// reentrant as well, because they never grant that.
var mutexModel = porcupine.Model{
	Init: func() any { return mutexState{} },
	Step: func(state, input, _ any) (bool, any) { return state.(mutexState).step(input.(operation)) },
}

func (s mutexState) step(o operation) (bool, any) {
	mine := s.n > 0 && s.who == o.who
	switch o.step {
	case stepAcquire:
		return s.n == 0 || mine, mutexState{o.who, s.n + 1}
	case stepRelease:
		return mine, mutexState{o.who, s.n - 1}
	}
	return mine, mutexState{}
}

func list(names []string) string {
	last := len(names) - 1
	switch last {
	case -1:
		return "nobody"
	case 0:
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
