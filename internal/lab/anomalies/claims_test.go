package anomalies

import (
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/fault"
	"oversell/internal/lab"
)

// tried runs the scenario s on v4_lua, in virtual time.
func tried(t *testing.T, s lab.Scenario) lab.Cell {
	t.Helper()
	s.Name = "tried"
	return run(t, lab.Config{Subjects: []lab.Subject{subject(t, "v4_lua")}, Redis: lab.Embedded,
		Scenarios: []lab.Scenario{s}}).Cells[0]
}

// The outcome Holds counts only if everything that the scenario requires has happened.
func TestHoldsNeedsEvidence(t *testing.T) {
	lock := func(w *lab.World, name string) *lab.Holder {
		h := w.Start(name).Holding()
		return h
	}
	buy := func(w *lab.World) { _ = w.OpenShop(1).Buyer(w.Start("A"), 0).Buy() }
	for _, tt := range []struct {
		what     string
		requires lab.Claim
		run      func(w *lab.World)
		missing  string // the missing evidence, or ""
	}{
		{"had it", had("A"), func(w *lab.World) { lock(w, "A") }, ""},
		{"never had it", had("A", "B"), func(w *lab.World) { lock(w, "A") }, "B never had the lock"},
		{"was refused", refused("B"), func(w *lab.World) { lock(w, "A"); w.Start("B").Holder().Try() }, ""},
		{"was refused all the while", refused("B"),
			func(w *lab.World) { lock(w, "A"); w.Start("B").Holder().Obtain(w.TTL / 2) }, ""},
		{"was not refused", refused("B"), func(w *lab.World) { lock(w, "B") }, "B was never refused"},
		{"was answered", answered("A", "B"), func(w *lab.World) { lock(w, "A"); w.Start("B").Holder().Try() }, ""},
		{"was not answered", answered("B"), func(w *lab.World) { lock(w, "A") }, "got no answer"},
		{"has bought", sold("A"), buy, ""},
		{"has not bought", sold("B"), buy, "B bought nothing"},
		{"was kept out", keptApart("A"), func(w *lab.World) { w.Record(lab.WasRefused, "A") }, ""},
		{"need not be kept out", keptApart("A"), func(w *lab.World) { w.Record(isOfFamily, "A") }, ""},
		{"was not kept out", keptApart("B"), func(w *lab.World) { w.Record(lab.WasRefused, "A") },
			"B was never refused"},
		{"was stopped", faulted("A"), func(w *lab.World) { w.Start("A").Freeze() }, ""},
		{"was not stopped", faulted("B"), func(w *lab.World) { w.Start("A").Freeze() }, "nothing was done to B"},
		{"two at once", oneAtATime, func(w *lab.World) { w.Enters("A"); w.Enters("B") },
			"B took the lock while A held it"},
		{"too few reads", read(2), func(w *lab.World) { w.Record(hasRead, "A") }, "1 of 2"},
		{"too few loads", loaded(1), func(*lab.World) {}, "0 of 1"},
		{"it is a lock", lab.IsLock, func(w *lab.World) { lock(w, "A") }, ""},
		{"somebody keeps it", lab.IsLock, func(w *lab.World) {
			p := w.Start("A")
			kept(w, p)
			p.Cut()
		}, "nobody gets the lock"},
	} {
		c := tried(t, lab.Scenario{Requires: []lab.Claim{tt.requires}, Run: func(w *lab.World) lab.Verdict {
			tt.run(w)
			return lab.Holds.Because("so it says")
		}})
		want := lab.Holds
		if tt.missing != "" {
			want = lab.Unknown
		}
		if c.Outcome != want || !strings.Contains(c.Note, tt.missing) {
			t.Errorf("%s: %s: %s", tt.what, c.Outcome, c.Note)
		}
	}
}

// The trace shows the check for IsLock only if it fails.
func TestProofIsNotShown(t *testing.T) {
	c := tried(t, lab.Scenario{Requires: []lab.Claim{lab.IsLock}, Run: func(w *lab.World) lab.Verdict {
		w.Start("A").Holder().MustLock()
		w.Sleep(time.Second)
		return lab.Holds.Because("")
	}})
	for _, e := range c.Trace {
		if e.At > 0 || e.Actor != "A" {
			t.Errorf("it shows %+v", e)
		}
	}
}

// If a fault met no command, the cell stays undecided, because the break must have another cause.
func TestFaultThatDidNotHappenDecidesNothing(t *testing.T) {
	for _, spare := range []bool{false, true} {
		c := tried(t, lab.Scenario{Run: func(w *lab.World) lab.Verdict {
			w.Start("A").Inject(func(cmd fault.Command) bool { return cmd.Is("NEVER") }, 1, "it is never sent",
				lab.Drop).Spare = spare
			return w.Broke("A", "something else")
		}})
		broken := slices.ContainsFunc(c.Trace, func(e lab.Event) bool { return e.Kind == lab.Break })
		if spare && (c.Outcome != lab.Breaks || !broken) {
			t.Errorf("a spare fault: %s: %s", c.Outcome, c.Note)
		}
		if !spare && (c.Outcome != lab.Unknown || broken || !strings.Contains(c.Note, "it is never sent")) {
			t.Errorf("%s: %s; marked as a break: %v", c.Outcome, c.Note, broken)
		}
	}
}
