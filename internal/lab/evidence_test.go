package lab

import (
	"slices"
	"strings"
	"testing"

	"oversell/internal/fault"
)

// tried runs the scenario s on v4_lua, in virtual time.
func tried(t *testing.T, s Scenario) Cell {
	t.Helper()
	s.Name = "tried"
	r, err := Run(t.Context(), Config{Subjects: []Subject{subject(t, "v4_lua")}, Redis: Embedded,
		Scenarios: []Scenario{s}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Cells[0]
}

// If no command matched a fault, the outcome is Unknown, because a break must have another cause.
func TestFaultThatDidNotHappenDecidesNothing(t *testing.T) {
	for _, spare := range []bool{false, true} {
		c := tried(t, Scenario{Run: func(w *World) Verdict {
			w.Start("A").Inject(func(cmd fault.Command) bool { return cmd.Is("NEVER") }, 1, "its reply is lost",
				loseReply).Spare = spare
			return w.Broke("A", "something else")
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
