package lab

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks"
)

// The whole table is as on record.
func TestEverythingIsAsOnRecord(t *testing.T) {
	checkAll(t, Config{Columns: Columns(), Redis: Embedded})
}

// A real Redis gives the same, here for one column of each sort: in real time
// all of them take minutes. A cell in which the machine stood still says nothing,
// and fails nothing.
func TestRealRedisIsAsOnRecord(t *testing.T) {
	var columns []Column
	for _, c := range Columns() {
		if slices.Contains([]string{"none", "v2_ttl", "v6_watchdog", "v7_queue", "v9_cohort", "redsync", "rueidislock"}, c.Name) {
			columns = append(columns, c)
		}
	}
	if len(columns) != 7 {
		t.Fatalf("%d columns, want 7", len(columns))
	}
	checkAll(t, Config{Columns: columns, Redis: backendtest.Redis(t, "local")})
}

func checkAll(t *testing.T, cfg Config) {
	t.Helper()
	cfg.Scenarios = Scenarios()
	checkRecord(t, cfg)
}

// isUndecided reports whether the machine was too busy for a cell.
func isUndecided(c Cell) bool { return strings.HasPrefix(c.Note, tooBusy) }

// checkRecord runs what is asked for, and compares it with what is on record.
func checkRecord(t *testing.T, cfg Config) Report {
	t.Helper()
	r, err := Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	undecided := 0
	for _, c := range r.Unexpected() {
		if isUndecided(c) {
			undecided++
			continue
		}
		t.Errorf("%s on %s: %s, want %s: %s", c.Anomaly, c.Strategy, c.Outcome, c.Expected, c.Note)
	}
	t.Logf("%d of %d cells are decided; in the others this machine was too busy", len(r.Cells)-undecided, len(r.Cells))
	if undecided > len(r.Cells)*9/10 {
		t.Error("next to nothing is decided")
	}
	for _, c := range r.Cells {
		if c.Expected == "" {
			t.Errorf("%s on %s: nothing is on record", c.Anomaly, c.Strategy)
		}
		if c.Note == "" {
			t.Errorf("%s on %s: no word on what decided it", c.Anomaly, c.Strategy)
		}
	}
	return r
}

// In virtual time not only the outcomes are the same, but the words too.
func TestRunsAreTheSame(t *testing.T) {
	cfg := Config{Columns: Columns(), Scenarios: Scenarios(), Redis: Embedded}
	var first []string
	for range 2 {
		r, err := Run(t.Context(), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		var now []string
		for _, c := range r.Cells {
			now = append(now, c.Anomaly+" "+c.Strategy+" "+string(c.Outcome))
		}
		if first == nil {
			first = now
		}
		if !slices.Equal(first, now) {
			t.Error("two runs differ")
		}
	}
}

// Virtual time rests on testing/synctest outside of a test: see virtually.
func TestVirtualTime(t *testing.T) {
	start := time.Now()
	var passed time.Duration
	err := virtually(func() {
		began := time.Now()
		time.Sleep(24 * time.Hour)
		passed = time.Since(began)
	})
	if err != nil || passed != 24*time.Hour || time.Since(start) > 10*time.Second {
		t.Errorf("%v passed in %v: %v", passed, time.Since(start), err)
	}
	if err := virtually(func() { panic("out of order") }); err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("a panic came out as %v", err)
	}
}

// Each anomaly has its texts, and a record for each column.
func TestAnomaliesAreTold(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := make(map[string]bool)
	for _, s := range Scenarios() {
		if !kebab.MatchString(s.Name) || seen[s.Name] {
			t.Errorf("%q is no name, or one that is taken", s.Name)
		}
		seen[s.Name] = true
		if s.Sentence == "" || s.Sequence == "" || s.Source == "" || s.run == nil {
			t.Errorf("%s lacks a text, or a run", s.Name)
		}
		if n := len(strings.ReplaceAll(s.record, " ", "")); n != len(recorded()) {
			t.Errorf("%s has a record for %d columns", s.Name, n)
		}
	}
	if len(seen) < 24 {
		t.Errorf("%d anomalies, want at least 24", len(seen))
	}
}

// Every cell that breaks shows where.
func TestBrokenCellsMarkTheMoment(t *testing.T) {
	r, err := Run(t.Context(), Config{Columns: Columns(), Scenarios: Scenarios(), Redis: Embedded}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cells {
		broken := slices.ContainsFunc(c.Trace, func(e Event) bool { return e.Kind == Break })
		if broken != (c.Outcome == Breaks) {
			t.Errorf("%s on %s %s, and its trace has a break: %v", c.Anomaly, c.Strategy, c.Outcome, broken)
		}
		if c.Outcome == NA && c.Note == "" {
			t.Errorf("%s on %s: n/a without a reason", c.Anomaly, c.Strategy)
		}
		if !slices.IsSortedFunc(c.Trace, func(a, b Event) int { return int(a.At*1000) - int(b.At*1000) }) {
			t.Errorf("%s on %s: the trace is out of order", c.Anomaly, c.Strategy)
		}
	}
}

// A scenario that panics, gets stuck or does not end decides nothing, and the
// next ones run all the same.
func TestCellsThatGoWrongAreUnknown(t *testing.T) {
	told := func(name string, run func(*World) verdict) Scenario {
		return Scenario{Anomaly: Anomaly{Name: name}, run: run}
	}
	cfg := Config{Columns: []Column{column(t, "v4_lua")}, Redis: Embedded, Scenarios: []Scenario{
		told("panics", func(*World) verdict { panic("ouch") }),
		told("stuck", func(w *World) verdict { need(false, "no way"); return verdict{} }),
		told("helper-panics", func(w *World) verdict {
			w.together(w.Go(func() { panic("ouch") }))
			return holds("")
		}),
		told("endless", func(w *World) verdict { w.Sleep(1000 * time.Hour); return verdict{} }),
		told("fine", func(*World) verdict { return holds("fine") }),
	}}
	r, err := Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		outcome Outcome
		note    string
	}{{Unknown, "ouch"}, {Unknown, "no way"}, {Unknown, "ouch"}, {Unknown, "not over"}, {Holds, "fine"}} {
		if c := r.Cells[i]; c.Outcome != want.outcome || !strings.Contains(c.Note, want.note) {
			t.Errorf("%s: %s (%s)", c.Anomaly, c.Outcome, c.Note)
		}
	}
}

func TestRunIsInterrupted(t *testing.T) {
	var nodes []string
	for range 3 {
		nodes = append(nodes, backendtest.Redis(t, "embedded"))
	}
	for _, redis := range []string{Embedded, backendtest.Redis(t, "embedded")} {
		ctx, cancel := context.WithCancel(t.Context())
		stop := func(Cell) { cancel() }
		start := time.Now()
		_, err := Run(ctx, Config{Columns: Columns(), Scenarios: Scenarios(), Redis: redis, Nodes: nodes}, stop)
		if !errors.Is(err, context.Canceled) || time.Since(start) > 20*time.Second {
			t.Errorf("on %s: %v after %v", redis, err, time.Since(start))
		}
	}
}

func TestRunNeedsOneServer(t *testing.T) {
	for _, url := range []string{"redis://a:1,b:2", "redis+sentinel://a:1/name", "http://secret@x"} {
		_, err := Run(t.Context(), Config{Redis: url}, nil)
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestFindSaysWhatThereIs(t *testing.T) {
	if _, err := FindColumns(Columns(), []string{"v4_lua", "v99"}); err == nil || !strings.Contains(err.Error(), "v6_watchdog") {
		t.Errorf("%v", err)
	}
	if _, err := FindScenarios(Scenarios(), []string{"nope"}); err == nil || !strings.Contains(err.Error(), "lost-update") {
		t.Errorf("%v", err)
	}
}

// What the lab calls a stage is what the catalog calls it. Each guard of the
// catalog has a column.
func TestColumnsAreTheCatalogs(t *testing.T) {
	for _, s := range locks.Strategies() {
		if s.Guard != nil && !s.Extra {
			column(t, s.Name)
		}
	}
	for _, name := range stages() {
		column(t, name)
	}
}
