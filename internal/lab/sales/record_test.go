package sales

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
)

// runOnce runs a table for all tests: a run takes seconds.
func runOnce(cfg lab.Config) func() (lab.Report, error) {
	return sync.OnceValues(func() (lab.Report, error) { return lab.Run(context.Background(), cfg, nil) })
}

// tables are the table of holds, and that of repairs and consumers.
var tables = []struct {
	name string
	cfg  lab.Config
	run  func() (lab.Report, error)
}{
	{"holds", holdsTable, runOnce(holdsTable)}, {"behind", behindTable, runOnce(behindTable)},
}

var (
	holdsTable  = lab.Config{Redis: lab.Embedded, Subjects: Subjects(), Scenarios: All()}
	behindTable = lab.Config{Redis: lab.Embedded, Subjects: Writers(), Scenarios: Behind()}
)

// eachTable runs f for each table, with what it came to on the embedded backends.
func eachTable(t *testing.T, f func(t *testing.T, cfg lab.Config, r lab.Report)) {
	t.Helper()
	if testing.Short() {
		t.Skip("runs whole tables: run it without -short")
	}
	for _, table := range tables {
		t.Run(table.name, func(t *testing.T) {
			r, err := table.run()
			if err != nil {
				t.Fatal(err)
			}
			f(t, table.cfg, r)
		})
	}
}

// The tables are as on record.
func TestEverythingIsAsOnRecord(t *testing.T) { eachTable(t, compare) }

// Real servers give the same.
func TestRealServersAreAsOnRecord(t *testing.T) {
	eachTable(t, func(t *testing.T, cfg lab.Config, _ lab.Report) {
		cfg.Redis, cfg.Database, cfg.Attempts = backendtest.Redis(t, "local"), backendtest.Database(t, "local"), 3
		compare(t, cfg, run(t, cfg))
	})
}

// What sells from a pool needs MySQL or MariaDB. There a naive claim breaks, and sql_units does
// not; without it nothing can be asked of them.
func TestPoolsAreAsOnRecord(t *testing.T) {
	for _, spec := range []string{lab.Embedded, "local"} {
		t.Run(spec, func(t *testing.T) {
			cfg := lab.Config{Redis: backendtest.Redis(t, spec), Database: backendtest.Database(t, spec), Attempts: 3, Subjects: Pools(), Scenarios: All()}
			if spec == lab.Embedded {
				cfg.Redis, cfg.Database = lab.Embedded, ""
			}
			r := run(t, cfg)
			compare(t, cfg, r)
			broken := 0
			for _, c := range r.Cells {
				if c.Outcome == lab.Breaks {
					broken++
				}
			}
			if want := map[string]int{lab.Embedded: 0, "local": 1}[spec]; broken != want {
				t.Errorf("%d cells break, want %d", broken, want)
			}
		})
	}
}

func run(t *testing.T, cfg lab.Config) lab.Report {
	t.Helper()
	r, err := lab.Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// compare compares what was run with what is on record. A cell for which the machine was too
// busy decides nothing.
func compare(t *testing.T, cfg lab.Config, r lab.Report) {
	t.Helper()
	undecided := 0
	for _, c := range r.Cells {
		switch {
		case strings.HasPrefix(c.Note, "this machine was too busy"):
			undecided++
			continue
		case c.Expected == lab.NoRecord:
			t.Errorf("%s on %s: nothing is on record", c.Anomaly, c.Strategy)
		case !c.AsExpected():
			t.Errorf("%s on %s: %s, want %s: %s", c.Anomaly, c.Strategy, c.Outcome, c.Expected, c.Note)
		}
		if c.Note == "" {
			t.Errorf("%s on %s: no word on what decided it", c.Anomaly, c.Strategy)
		}
	}
	t.Logf("%d of %d cells are decided", len(r.Cells)-undecided, len(r.Cells))
	if want := len(cfg.Subjects) * len(cfg.Scenarios); len(r.Cells) != want || want == 0 || undecided > want*9/10 {
		t.Errorf("%d cells, %d of them undecided; want %d decided cells", len(r.Cells), undecided, want)
	}
}

// In virtual time the outcomes, the notes and what everybody sent are the same every time.
func TestRunsAreTheSame(t *testing.T) {
	eachTable(t, func(t *testing.T, cfg lab.Config, r lab.Report) {
		first := stories(r)
		for range backendtest.Times(1, 3) {
			now := stories(run(t, cfg))
			for i := range now {
				if now[i] != first[i] {
					t.Fatalf("two runs differ: %s", difference(first[i], now[i]))
				}
			}
		}
	})
}

// difference shows where two stories part, after what was last the same.
func difference(a, b string) string {
	one, other := strings.Split(a, "\n"), strings.Split(b, "\n")
	n := 0
	for n < min(len(one), len(other)) && one[n] == other[n] {
		n++
	}
	rest := func(lines []string) string {
		return strings.Join(lines[max(0, min(n-3, len(lines))):min(n+3, len(lines))], "\n")
	}
	return fmt.Sprintf("%s\n%s\nand\n%s", one[0], rest(one), rest(other))
}

// stories tells what happened in each cell.
func stories(r lab.Report) (all []string) {
	for _, c := range r.Cells {
		story := fmt.Sprintf("%s on %s: %s: %s", c.Anomaly, c.Strategy, c.Outcome, c.Note)
		for _, e := range c.Trace {
			story += fmt.Sprintf("\n  %s %s %s → %s", e.Actor, e.Kind, e.Text, e.Reply)
		}
		all = append(all, story)
	}
	return all
}

// Each anomaly has its texts, a record that names subjects, and says what must have
// happened.
func TestAnomaliesAreTold(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := make(map[string]bool)
	for _, s := range append(All(), Behind()...) {
		if !kebab.MatchString(s.Name) || seen[s.Name] {
			t.Errorf("%q is no name, or one that is taken", s.Name)
		}
		seen[s.Name] = true
		if s.Sentence == "" || s.Sequence == "" || s.Source == "" || s.Run == nil || len(s.Requires) == 0 {
			t.Errorf("%s lacks a text, a run or a claim", s.Name)
		}
		for _, name := range s.Breaks.Names {
			if _, err := lab.FindSubjects(s.Of, []string{name}); err != nil {
				t.Errorf("%s: %v", s.Name, err)
			}
		}
	}
}

// Every cell that breaks shows where.
func TestBrokenCellsMarkTheMoment(t *testing.T) {
	eachTable(t, func(t *testing.T, _ lab.Config, r lab.Report) {
		for _, c := range r.Cells {
			broken := slices.ContainsFunc(c.Trace, func(e lab.Event) bool { return e.Kind == lab.Break })
			if broken != (c.Outcome == lab.Breaks) {
				t.Errorf("%s on %s %s, and its trace has a break: %v", c.Anomaly, c.Strategy, c.Outcome, broken)
			}
		}
	})
}
