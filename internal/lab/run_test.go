package lab

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
)

// A scenario that panics, gets stuck or does not end has the outcome Unknown. The scenarios after it
// still run. The trace of an Unknown cell shows no break.
func TestCellsThatGoWrongAreUnknown(t *testing.T) {
	told := func(name string, run func(*World) Verdict) Scenario {
		return Scenario{Anomaly: Anomaly{Name: name}, Run: run}
	}
	cfg := Config{Subjects: []Subject{subject(t, "v4_lua")}, Redis: Embedded, Scenarios: []Scenario{
		told("panics", func(*World) Verdict { panic("ouch") }),
		told("stuck", func(w *World) Verdict { Need(false, "no way"); return Verdict{} }),
		told("broke-then-stuck", func(w *World) Verdict {
			w.Broke("A", "x")
			Need(false, "no way")
			return Verdict{}
		}),
		told("helper-panics", func(w *World) Verdict {
			w.Together(w.Go(func() { panic("ouch") }))
			return Holds.Because("")
		}),
		told("endless", func(w *World) Verdict { w.Sleep(1000 * time.Hour); return Verdict{} }),
		told("fine", func(*World) Verdict { return Holds.Because("fine") }),
	}}
	r, err := Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		outcome Outcome
		note    string
	}{
		{Unknown, "ouch"}, {Unknown, "no way"}, {Unknown, "no way"}, {Unknown, "ouch"}, {Unknown, "not over"},
		{Holds, "fine"},
	} {
		c := r.Cells[i]
		if c.Outcome != want.outcome || !strings.Contains(c.Note, want.note) {
			t.Errorf("%s: %s (%s)", c.Anomaly, c.Outcome, c.Note)
		}
		if slices.ContainsFunc(c.Trace, func(e Event) bool { return e.Kind == Break }) {
			t.Errorf("%s: its trace shows a break", c.Anomaly)
		}
	}
}

// The lab has a subject for each guard of the catalog.
func TestSubjectsAreTheCatalogs(t *testing.T) {
	for _, s := range catalog.Strategies() {
		if s.Guard != nil && !s.Extra {
			subject(t, s.Name)
		}
	}
}

// In real time, a lock is not tried without the servers that it needs.
func TestLocksNeedTheirServers(t *testing.T) {
	redis := backendtest.Redis(t, "embedded")
	for _, c := range append(Coordinated(), subject(t, "redlock")) {
		_, err := Run(t.Context(), Config{Subjects: []Subject{c},
			Scenarios: []Scenario{{Run: func(*World) Verdict { return Holds.Because("") }}}, Redis: redis}, nil)
		if !errors.Is(err, errNoServers) || !strings.Contains(err.Error(), c.Name) {
			t.Errorf("%s: %v; want %v", c.Name, err, errNoServers)
		}
	}
}
