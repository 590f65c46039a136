package lab

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// tried runs one scenario of its own on v4_lua, in virtual time.
func tried(t *testing.T, s Scenario) Cell {
	t.Helper()
	s.Name = "tried"
	r, err := Run(t.Context(), Config{Columns: []Column{column(t, "v4_lua")}, Redis: Embedded, Scenarios: []Scenario{s}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Cells[0]
}

// A scenario that says "holds" is believed only if what it is about happened.
func TestHoldsNeedsEvidence(t *testing.T) {
	lock := func(w *World, name string) *Holder {
		h := w.Start(name).Holder()
		h.MustLock()
		return h
	}
	buy := func(w *World) { _ = w.open(1).buyer(w.Start("A"), 0).buy() }
	for _, tt := range []struct {
		what     string
		requires claim
		run      func(w *World)
		missing  string // "" if there is evidence
	}{
		{"had it", had("A"), func(w *World) { lock(w, "A") }, ""},
		{"never had it", had("A", "B"), func(w *World) { lock(w, "A") }, "B never had the lock"},
		{"was refused", refused("B"), func(w *World) { lock(w, "A"); w.Start("B").Holder().Try() }, ""},
		{"was refused all the while", refused("B"), func(w *World) { lock(w, "A"); w.Start("B").Holder().Obtain(w.TTL / 2) }, ""},
		{"was not refused", refused("B"), func(w *World) { lock(w, "B") }, "B was never refused"},
		{"was answered", answered("A", "B"), func(w *World) { lock(w, "A"); w.Start("B").Holder().Try() }, ""},
		{"was not answered", answered("B"), func(w *World) { lock(w, "A") }, "got no answer"},
		{"has bought", sold("A"), buy, ""},
		{"has not bought", sold("B"), buy, "B bought nothing"},
		{"was kept out", keptApart("A"), func(w *World) { w.deeds.add(wasRefused, "A") }, ""},
		{"need not be kept out", keptApart("A"), func(w *World) { w.deeds.add(isOfFamily, "A") }, ""},
		{"was not kept out", keptApart("B"), func(w *World) { w.deeds.add(wasRefused, "A") }, "B was never refused"},
		{"was stopped", struck("A"), func(w *World) { w.Start("A").Freeze() }, ""},
		{"was not stopped", struck("B"), func(w *World) { w.Start("A").Freeze() }, "nothing was done to B"},
		{"two at once", oneAtATime, func(w *World) { w.history.acquired("A", 1); w.history.acquired("B", 2) }, "B took the lock while A held it"},
		{"too few reads", read(2), func(w *World) { w.deeds.add(hasRead, "A") }, "1 of 2"},
		{"too few loads", loaded(1), func(*World) {}, "0 of 1"},
		{"it is a lock", isLock, func(w *World) { lock(w, "A") }, ""},
		{"somebody keeps it", isLock, func(w *World) {
			p := w.Start("A")
			w.kept(p)
			p.Cut()
		}, "nobody gets the lock"},
	} {
		c := tried(t, Scenario{requires: []claim{tt.requires}, run: func(w *World) verdict {
			tt.run(w)
			return holds("so it says")
		}})
		want := Holds
		if tt.missing != "" {
			want = Unknown
		}
		if c.Outcome != want || !strings.Contains(c.Note, tt.missing) {
			t.Errorf("%s: %s: %s", tt.what, c.Outcome, c.Note)
		}
	}
}

// A fault that was to be done to a command, and never was, decides nothing: the
// break that is seen without it is another's.
func TestFaultThatDidNotHappenDecidesNothing(t *testing.T) {
	for _, spare := range []bool{false, true} {
		c := tried(t, Scenario{run: func(w *World) verdict {
			w.Start("A").Fault(named("NEVER"), 1, "its reply is lost", loseReply).spare = spare
			return w.broke("A", "something else")
		}})
		broken := slices.ContainsFunc(c.Trace, func(e Event) bool { return e.Kind == Break })
		if spare && (c.Outcome != Breaks || !broken) {
			t.Errorf("a spare fault: %s: %s", c.Outcome, c.Note)
		}
		if !spare && (c.Outcome != Unknown || broken || !strings.Contains(c.Note, "its reply is lost")) {
			t.Errorf("%s: %s; marked as a break: %v", c.Outcome, c.Note, broken)
		}
	}
}

// How it was tried whether the lock is one is not shown, unless it is not.
func TestProofIsNotShown(t *testing.T) {
	c := tried(t, Scenario{requires: []claim{isLock}, run: func(w *World) verdict {
		w.Start("A").Holder().MustLock()
		w.Sleep(time.Second)
		return holds("")
	}})
	for _, e := range c.Trace {
		if e.At > 0 || e.Actor != "A" {
			t.Errorf("it shows %+v", e)
		}
	}
}

// No anomaly holds for nothing: each says what must have happened.
func TestEveryScenarioSaysWhatItRequires(t *testing.T) {
	for _, s := range Scenarios() {
		if len(s.requires) == 0 {
			t.Errorf("%s requires nothing: a lock that does nothing would keep it", s.Name)
		}
	}
}
