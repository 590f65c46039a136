package lab

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
)

// A Claim is something that must have happened in a cell before its outcome can be
// "holds". It calls Need with what is missing. Claims are computed from the records of
// the cell, or tried out at its end; they do not use the scenario's own verdict.
type Claim func(w *World)

// deed is what an actor did, or what happened to it.
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

// missing says what of a claim did not happen, or returns "".
func (w *World) missing(c Claim) (why string) {
	defer func() {
		if r := recover(); r != nil {
			why = failed(r).Note
		}
	}()
	c(w)
	return ""
}

// undecided is the verdict on a cell in which what it is about did not happen.
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
