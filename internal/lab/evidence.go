package lab

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// A claim is something that must have happened in a cell before its outcome can
// be "holds". It ends with need where it did not. Claims are computed from the
// records of the cell, or tried out at its end; the scenario's own verdict is not
// asked.
type claim func(w *World)

// deeds are records of a cell that the history of the lock does not have. They may
// be used by several goroutines.
type deeds struct {
	mu     sync.Mutex
	done   map[deed]int // how often
	faults []*planned
}

// deed is what an actor did, or what happened to it.
type deed struct {
	what string
	who  string
}

// What is counted of an actor.
const (
	wasRefused = "refused" // it asked for the lock and was refused
	hasSold    = "sold"    // a unit
	hasRead    = "read"    // a value, through a cache
	hasLoaded  = "loaded"  // a value, from the database
	isOfFamily = "family"  // its strategy need not be kept apart from the column's
)

// planned is a fault that waits for its command. In a cell whose fault never found
// its command nothing was tried.
type planned struct {
	text   string
	struck atomic.Bool // a command came to which it was done
	spare  bool        // it may find nothing to do
}

func (d *deeds) add(what, who string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(map[deed]int)
	}
	d.done[deed{what, who}]++
}

func (d *deeds) has(what, who string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done[deed{what, who}] > 0
}

// times is how often it was done by all actors.
func (d *deeds) times(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := 0
	for one, n := range d.done {
		if one.what == what {
			sum += n
		}
	}
	return sum
}

// plan notes a fault that is to happen.
func (d *deeds) plan(text string) *planned {
	f := &planned{text: cmp.Or(text, "held up on its way")}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, f)
	return f
}

// idle returns a fault that should have happened and did not, or nil.
func (d *deeds) idle() *planned {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.faults {
		if !f.spare && !f.struck.Load() {
			return f
		}
	}
	return nil
}

// examined is the verdict of a scenario, if what the scenario is about did happen.
// A lock that grants nothing breaks no promise, and keeps none.
func (w *World) examined(s Scenario, v verdict) verdict {
	if v.outcome != Holds && v.outcome != Breaks {
		return v
	}
	if f := w.deeds.idle(); f != nil {
		return w.undecided("no command came to which the fault could be done: " + f.text)
	}
	if v.outcome == Breaks {
		return v
	}
	for _, c := range s.requires {
		if missing := w.missing(c); missing != "" {
			return w.undecided(missing)
		}
	}
	return v
}

// missing says what of a claim did not happen, or returns "".
func (w *World) missing(c claim) (why string) {
	defer func() {
		if r := recover(); r != nil {
			why = failed(r).note
		}
	}()
	c(w)
	return ""
}

// undecided is the verdict on a cell in which what it is about did not happen.
func (w *World) undecided(missing string) verdict {
	w.trace.acquit()
	v := unknown("%s", "what this is about did not happen: "+missing)
	w.trace.add("", Note, v.note)
	return v
}

// of claims that check is true of all names; missing is said of the first for which
// it is not.
func of(names []string, missing string, check func(w *World, who string) bool) claim {
	return func(w *World) {
		for _, who := range names {
			need(check(w, who), missing, who)
		}
	}
}

func hadIt(w *World, who string) bool { return slices.Contains(w.history.takers(), who) }

func did(what string) func(w *World, who string) bool {
	return func(w *World, who string) bool { return w.deeds.has(what, who) }
}

// had claims that each of the actors had the lock, or was in the section.
func had(names ...string) claim { return of(names, "%s never had the lock", hadIt) }

// refused claims that each of the actors asked for the lock and was refused.
func refused(names ...string) claim { return of(names, "%s was never refused", did(wasRefused)) }

// answered claims that each of the actors was granted the lock or refused it.
func answered(names ...string) claim {
	return of(names, "%s asked for the lock and got no answer", func(w *World, who string) bool {
		return hadIt(w, who) || w.deeds.has(wasRefused, who)
	})
}

// sold claims that each of the actors sold a unit.
func sold(names ...string) claim { return of(names, "%s bought nothing", did(hasSold)) }

// read claims that there were n reads of a value, on all instances.
func read(n int) claim { return times(hasRead, n, "%d of %d readers have the value") }

// loaded claims that n readers were let in to load the value.
func loaded(n int) claim { return times(hasLoaded, n, "%d of %d readers were let in") }

func times(what string, n int, missing string) claim {
	return func(w *World) {
		got := w.deeds.times(what)
		need(got >= n, missing, got, n)
	}
}

// struck claims that something was done to each of the actors from outside.
func struck(names ...string) claim {
	return of(names, "nothing was done to %s", func(w *World, who string) bool {
		_, ok := w.trace.first(who, Fault)
		return ok
	})
}

// unlessInMemory claims it of locks that several processes share: one in the
// memory of a process is gone with the process, and refuses nobody after that.
func unlessInMemory(c claim) claim {
	return func(w *World) {
		if !w.column.InProcess {
			c(w)
		}
	}
}

// oneAtATime claims that no two had the lock at once.
func oneAtATime(w *World) {
	if overlaps := w.history.seen(); len(overlaps) > 0 {
		panic(stuck{overlaps[0]})
	}
}

// isLock claims that after all of this the lock still is one. Everybody gives back
// what they have; then Y takes the lock, Z is refused, Y gives it back, and Z takes
// it. Without this an unlock that does nothing would keep every promise about
// unlocks, and a lock that is granted to everybody those about taking it twice. If
// the claim is true the trace does not show how it was tried.
func isLock(w *World) {
	cut := w.trace.mark()
	w.mu.Lock()
	processes := slices.Clone(w.processes)
	w.mu.Unlock()
	for _, p := range processes {
		p.settle()
	}
	y, z := w.newcomer("Y"), w.newcomer("Z")
	// It may take a lease until what the scenario left behind is gone.
	need(y.Obtain(2*w.TTL), "nobody gets the lock after everybody has given it back")
	need(!z.Try(), "the lock keeps nobody out")
	_ = y.Unlock()
	limit := w.TTL / 2
	need(z.Obtain(limit), "nobody gets the lock within %s of an unlock", about(limit))
	_ = z.Unlock()
	cut()
}

// newcomer is a holder in a new process; of a lock in memory, in the same instance
// as those before it.
func (w *World) newcomer(name string) *Holder {
	w.mu.Lock()
	first := w.processes[0]
	w.mu.Unlock()
	if w.column.InProcess {
		return first.Another(name).Holder()
	}
	return w.Start(name).Holder()
}

// settle has the holders of the process give back what they have, if it can.
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
