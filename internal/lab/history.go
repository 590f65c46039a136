package lab

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

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
	return slices.ContainsFunc(w.history.ops, func(op porcupine.Operation) bool { return op.Input == operation{stepAcquire, who} })
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

// mutexState is who holds the mutex, and how often.
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

// list joins names with commas and a last "and".
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
