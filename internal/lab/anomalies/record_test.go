package anomalies

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
)

// everything is what whole runs.
func everything() lab.Config {
	return lab.Config{Subjects: lab.Subjects(), Scenarios: All(), Redis: lab.Embedded}
}

// whole runs the whole table once for all tests: a run takes half a minute.
var whole = sync.OnceValues(func() (lab.Report, error) { return lab.Run(context.Background(), everything(), nil) })

// table returns the whole table. With -short, as with the race detector, that takes too long.
func table(t *testing.T) lab.Report {
	t.Helper()
	if testing.Short() {
		t.Skip("runs the whole table: run it without -short")
	}
	r, err := whole()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The whole table is as on record.
func TestEverythingIsAsOnRecord(t *testing.T) { compare(t, everything(), table(t)) }

// A real Redis gives the same, here for one subject of each sort: in real time
// all of them take minutes. A cell in which the machine stood still says nothing,
// and fails nothing.
func TestRealRedisIsAsOnRecord(t *testing.T) {
	var subjects []lab.Subject
	for _, c := range lab.Subjects() {
		if slices.Contains([]string{"none", "v2_ttl", "v6_watchdog", "v7_queue", "v9_cohort", "redsync", "rueidislock"}, c.Name) {
			subjects = append(subjects, c)
		}
	}
	if len(subjects) != 7 {
		t.Fatalf("%d subjects, want 7", len(subjects))
	}
	checkAll(t, lab.Config{Subjects: subjects, Redis: backendtest.Redis(t, "local")})
}

func checkAll(t *testing.T, cfg lab.Config) {
	t.Helper()
	cfg.Scenarios = All()
	checkRecord(t, cfg)
}

// isUndecided reports whether the machine was too busy for a cell.
func isUndecided(c lab.Cell) bool { return strings.HasPrefix(c.Note, tooBusy) }

// checkRecord runs what is asked for, and compares it with what is on record.
func checkRecord(t *testing.T, cfg lab.Config) lab.Report {
	t.Helper()
	r, err := lab.Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, cfg, r)
	return r
}

// compare compares what was run with what is on record.
func compare(t *testing.T, cfg lab.Config, r lab.Report) {
	t.Helper()
	undecided := 0
	for _, c := range r.Unexpected() {
		if isUndecided(c) {
			undecided++
			continue
		}
		if cfg.Redis != lab.Embedded && asOnRecordAgain(t, cfg, c) {
			t.Logf("%s on %s: %s, and as on record when run again: %s", c.Anomaly, c.Strategy, c.Outcome, c.Note)
			continue
		}
		t.Errorf("%s on %s: %s, want %s: %s", c.Anomaly, c.Strategy, c.Outcome, c.Expected, c.Note)
	}
	t.Logf("%d of %d cells are decided; in the others this machine was too busy", len(r.Cells)-undecided, len(r.Cells))
	if want := len(cfg.Subjects) * len(cfg.Scenarios); len(r.Cells) != want || want == 0 || undecided > want*9/10 {
		t.Errorf("%d cells, %d of them undecided; want %d decided cells", len(r.Cells), undecided, want)
	}
	for _, c := range r.Cells {
		if c.Expected == lab.NoRecord {
			t.Errorf("%s on %s: nothing is on record", c.Anomaly, c.Strategy)
		}
		if c.Note == "" {
			t.Errorf("%s on %s: no word on what decided it", c.Anomaly, c.Strategy)
		}
	}
}

// asOnRecordAgain runs one cell again, and reports whether it is as on record. In real
// time a server of its own may be stalled, which the lab does not see: rueidislock undoes
// each try to which Redis answers late.
func asOnRecordAgain(t *testing.T, cfg lab.Config, c lab.Cell) bool {
	t.Helper()
	cfg.Scenarios = slices.DeleteFunc(All(), func(s lab.Scenario) bool { return s.Name != c.Anomaly })
	cfg.Subjects = slices.DeleteFunc(slices.Clone(cfg.Subjects), func(s lab.Subject) bool { return s.Name != c.Strategy })
	for range 2 {
		r, err := lab.Run(t.Context(), cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Unexpected()) > 0 {
			return false
		}
	}
	return true
}

// In virtual time each run gives the same.
func TestRunsAreTheSame(t *testing.T) {
	cfg := everything()
	cfg.Subjects = cfg.Subjects[:backendtest.Times(6, len(cfg.Subjects))]
	again, err := lab.Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	first := make(map[string]lab.Outcome)
	for _, c := range table(t).Cells {
		first[c.Anomaly+" on "+c.Strategy] = c.Outcome
	}
	for _, c := range again.Cells {
		if cell := c.Anomaly + " on " + c.Strategy; first[cell] != c.Outcome {
			t.Errorf("%s: %s, and then %s", cell, first[cell], c.Outcome)
		}
	}
}

// Each anomaly has its texts, and a record that names subjects.
func TestAnomaliesAreTold(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := make(map[string]bool)
	for _, s := range All() {
		if !kebab.MatchString(s.Name) || seen[s.Name] {
			t.Errorf("%q is no name, or one that is taken", s.Name)
		}
		seen[s.Name] = true
		if s.Sentence == "" || s.Sequence == "" || s.Source == "" || s.Run == nil {
			t.Errorf("%s lacks a text, or a run", s.Name)
		}
		if err := checkNames(s); err != nil {
			t.Error(err)
		}
	}
	if len(seen) < 24 {
		t.Errorf("%d anomalies, want at least 24", len(seen))
	}
}

// checkNames returns an error for a record that names no subject, or the same one
// twice, or says of a subject that it breaks where the question does not apply to it.
func checkNames(s lab.Scenario) error {
	all := append(lab.Subjects(), lab.Coordinated()...)
	for _, set := range []lab.SubjectSet{s.Breaks, s.FoundNA} {
		for i, name := range set.Names {
			if _, err := lab.FindSubjects(all, []string{name}); err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if slices.Contains(set.Names[:i], name) {
				return fmt.Errorf("%s names %s twice", s.Name, name)
			}
		}
	}
	for _, c := range all {
		if slices.Contains(s.Breaks.Names, c.Name) && s.Expected(c.Name) == lab.NA {
			return fmt.Errorf("%s names %s, and the question does not apply to it", s.Name, c.Name)
		}
	}
	return nil
}

func TestRecordsNameSubjects(t *testing.T) {
	for want, s := range map[string]lab.Scenario{
		`unknown strategy "v3_uid"`: {Breaks: lab.Only("v2_ttl", "v3_uid")},
		`unknown strategy "etc"`:    {Breaks: lab.AllBut("etc")},
		`unknown strategy "v1"`:     {FoundNA: lab.Only("v1")},
		"names v2_ttl twice":        {Breaks: lab.Only("v2_ttl", "v3_uuid", "v2_ttl")},
		"does not apply":            {Breaks: lab.Only("none"), NotApplicable: needsLock},
	} {
		if err := checkNames(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}

// Every cell that breaks shows where.
func TestBrokenCellsMarkTheMoment(t *testing.T) {
	for _, c := range table(t).Cells {
		broken := slices.ContainsFunc(c.Trace, func(e lab.Event) bool { return e.Kind == lab.Break })
		if broken != (c.Outcome == lab.Breaks) {
			t.Errorf("%s on %s %s, and its trace has a break: %v", c.Anomaly, c.Strategy, c.Outcome, broken)
		}
		if c.Outcome == lab.NA && c.Note == "" {
			t.Errorf("%s on %s: n/a without a reason", c.Anomaly, c.Strategy)
		}
		if !slices.IsSortedFunc(c.Trace, func(a, b lab.Event) int { return int(a.At*1000) - int(b.At*1000) }) {
			t.Errorf("%s on %s: the trace is out of order", c.Anomaly, c.Strategy)
		}
	}
}

func TestRunIsInterrupted(t *testing.T) {
	var nodes []string
	for range 3 {
		nodes = append(nodes, backendtest.Redis(t, "embedded"))
	}
	for _, redis := range []string{lab.Embedded, backendtest.Redis(t, "embedded")} {
		ctx, cancel := context.WithCancel(t.Context())
		done := 0
		stop := func(lab.Cell) { done++; cancel() }
		_, err := lab.Run(ctx, lab.Config{Subjects: lab.Subjects(), Scenarios: All(), Redis: redis, Nodes: nodes}, stop)
		if !errors.Is(err, context.Canceled) || done > 100 {
			t.Errorf("on %s: %v after %d cells", redis, err, done)
		}
	}
}

// Five real servers give the same, where their clocks are not asked to jump.
func TestRealNodesAreAsOnRecord(t *testing.T) {
	cfg := lab.Config{Subjects: []lab.Subject{subject(t, "redlock")}, Redis: backendtest.Redis(t, "local"), Attempts: 3}
	for range 5 {
		cfg.Nodes = append(cfg.Nodes, backendtest.Redis(t, "local"))
	}
	cfg.Scenarios = []lab.Scenario{cutOff(), failover(), restartForgets(), foreignDelete(), clockMajority()}
	if n := len(checkRecord(t, cfg).Cells); n != len(cfg.Scenarios) {
		t.Errorf("%d cells", n)
	}
}

// No anomaly holds for nothing: each says what must have happened.
func TestEveryScenarioSaysWhatItRequires(t *testing.T) {
	for _, s := range All() {
		if len(s.Requires) == 0 {
			t.Errorf("%s requires nothing: a lock that does nothing would keep it", s.Name)
		}
	}
}

// The stages themselves, graded as if they were yours, keep what they are the
// first to keep.
func TestStagesKeepWhatIsTheirs(t *testing.T) {
	stage := regexp.MustCompile(`^v\d_`)
	var stages []string
	for _, c := range lab.Subjects() {
		if !stage.MatchString(c.Name) {
			continue
		}
		stages = append(stages, c.Name)
		broken := 0
		for _, s := range lab.GradeOf(table(t), All(), c.Name).Stages {
			for _, cell := range s.Cells {
				if cell.Outcome == lab.Holds {
					continue
				}
				broken++
				if slices.Contains(stages, s.Stage) {
					t.Errorf("%s breaks %s, which %s keeps: %s", c.Name, cell.Anomaly, s.Stage, cell.Note)
				}
			}
		}
		if broken == 0 {
			t.Errorf("%s breaks nothing", c.Name)
		}
	}
}
