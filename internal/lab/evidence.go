package lab

import (
	"context"
	"slices"

	"oversell/internal/message"
)

// A Claim checks that something happened in a cell. Only if all claims are true can the outcome be
// "holds". A claim checks the records of the cell, or tries the lock after the scenario; it does
// not rely on the scenario's own verdict. If the claim is false, it calls Need.
type Claim func(w *World)

// The deeds that are counted per actor.
const (
	HadLock    = "had"     // it had the lock
	WasRefused = "refused" // it asked for the lock and was refused
	HasSold    = "sold"    // it sold a unit
)

// Record counts one more deed, such as HadLock, for an actor.
func (w *World) Record(what, who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deeds[[2]string{what, who}]++
}

// Did reports whether the deed was recorded for an actor.
func (w *World) Did(what, who string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deeds[[2]string{what, who}] > 0
}

// Times returns the number of times that the deed was recorded, summed over all actors.
func (w *World) Times(what string) (sum int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for deed, n := range w.deeds {
		if deed[0] == what {
			sum += n
		}
	}
	return sum
}

// examined returns the scenario's verdict, or Unknown if something that it requires did not happen.
// Without this check, a lock that is never granted would seem to keep every promise.
func (w *World) examined(s Scenario, v Verdict) Verdict {
	if v.Outcome != Holds && v.Outcome != Breaks {
		return v
	}
	for _, p := range w.actors() {
		if missing := p.missingFault(); missing != "" {
			return w.undecided(message.Newf("no command matched the fault: %s", message.Text(missing)))
		}
	}
	if v.Outcome == Breaks {
		return v
	}
	for _, c := range s.Requires {
		if missing, ok := w.check(c); !ok {
			return w.undecided(missing)
		}
	}
	return v
}

// check reports whether a claim is true, and otherwise why not.
func (w *World) check(c Claim) (why message.Message, ok bool) {
	defer func() {
		if r := recover(); r != nil {
			why = failed(r).Note
		}
	}()
	c(w)
	return why, true
}

func (w *World) undecided(missing message.Message) Verdict {
	v := Unknown.Because("the cell is not decided: %s", missing)
	w.trace.add("", Note, v.Note)
	return v
}

// IsLock claims that the lock still works at the end of the cell. All holders release what they
// hold. Then Y takes the lock, Z is refused, Y releases the lock, and Z takes it. Without this
// claim, an unlock that does nothing would keep every promise about unlocks, and a lock that is
// granted to everybody would keep every promise about re-entry. If the claim is true, the trace
// does not show the check.
func IsLock(w *World) {
	cut := w.trace.mark()
	for _, p := range w.actors() {
		p.settle()
	}
	y, z := w.newcomer("Y"), w.newcomer("Z")
	// A lock that the scenario left behind may be held until its lease expires.
	Need(y.Obtain(2*w.TTL), "nobody gets the lock after everybody has given it back")
	Need(!z.Try(), "the lock keeps nobody out")
	_ = y.Unlock()
	limit := w.TTL / 2
	Need(z.Obtain(limit), "nobody gets the lock within %s of an unlock", About(limit))
	_ = z.Unlock()
	cut()
}

// newcomer returns a holder in a new process. If the lock is in memory, the process is in the same
// instance as the earlier processes.
func (w *World) newcomer(name string) *Holder {
	if w.Subject.InProcess {
		return w.actors()[0].Another(name).Holder()
	}
	return w.Start(name).Holder()
}

// settle makes the holders of the process release what they hold, if the process can reach the
// server.
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

// enters records that an actor has taken the lock, possibly again. It returns the other actors that
// believe that they hold it.
func (w *World) enters(who string) (others []string) {
	w.Record(HadLock, who)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	for _, other := range w.inside {
		if other != who && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	w.inside = append(w.inside, who)
	if len(others) > 0 {
		w.overlaps = append(w.overlaps, message.Newf("%s took the lock while %s held it", who, list(others)))
	}
	return others
}

// leaves records that an actor no longer relies on one of its holds.
func (w *World) leaves(who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	if i := slices.Index(w.inside, who); i >= 0 {
		w.inside = slices.Delete(w.inside, i, i+1)
	}
}

// loses records that all holds of an actor are over, because it is dead or has learned of the loss.
func (w *World) loses(who string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.steps++
	w.inside = slices.DeleteFunc(w.inside, func(other string) bool { return other == who })
}

// Overlaps returns a sentence for each time that two actors had the lock at once.
func (w *World) Overlaps() []message.Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.overlaps)
}

// Exclusive returns Breaks if two actors had the lock at once, and otherwise Holds.
func (w *World) Exclusive() Verdict {
	if overlaps := w.Overlaps(); len(overlaps) > 0 {
		w.trace.judge()
		return Verdict{Breaks, overlaps[0]}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return Holds.Because("a mutex would allow the same order; steps: %d", w.steps)
}

// list returns names as part of a sentence, such as "A, B and C".
func list(names []string) message.Message {
	if len(names) == 0 {
		return message.Text("nobody")
	}
	var all any = names[0]
	last := len(names) - 1
	if last == 0 {
		return message.Text(names[0])
	}
	for _, name := range names[1:last] {
		all = message.Newf("%s, %s", all, name)
	}
	return message.Newf("%s and %s", all, names[last])
}
