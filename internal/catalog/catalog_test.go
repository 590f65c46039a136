package catalog_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/figures"
)

func TestFindSaysWhatThereIs(t *testing.T) {
	all := catalog.Strategies()
	for _, name := range all.Names() {
		if s, err := all.Find(name); err != nil || s.Name != name {
			t.Errorf("Find(%q) = %q, %v", name, s.Name, err)
		}
	}
	for _, name := range []string{"", "zebra", "v66"} {
		_, err := all.Find(name)
		if !errors.Is(err, catalog.ErrName) || !strings.Contains(err.Error(), "v6_watchdog") {
			t.Errorf("Find(%q): %v, want %v and the names", name, err, catalog.ErrName)
		}
	}
	if _, err := catalog.ParseCondition("stormy"); !errors.Is(err, catalog.ErrName) ||
		!strings.Contains(err.Error(), "pause") {
		t.Errorf("ParseCondition: %v", err)
	}
}

// These expectations depend on more than the strategy and the condition.
func TestCatalogExpects(t *testing.T) {
	type of = catalog.Case
	type verdicts = []figures.Verdict
	const reads = catalog.Cache
	const ok, drift, sold, again = figures.OK, figures.Drift, figures.Oversold, figures.Reloaded
	for _, tt := range []struct {
		strategy string
		c        of
		accepted verdicts // all that are expected; oversold and stuck are checked too
		loads    int64
	}{
		{"local", of{Condition: catalog.Calm, Instances: 1}, verdicts{ok}, 0},
		{"local", of{Condition: catalog.Calm, Instances: 2}, verdicts{sold}, 0},
		{"v2_ttl", of{Condition: catalog.Slow, Instances: 2}, verdicts{sold, drift}, 0},
		{"v6_watchdog", of{Condition: catalog.Slow, Instances: 2}, verdicts{ok}, 0},
		{"v6_watchdog", of{Condition: catalog.Partition, Instances: 2}, verdicts{sold}, 0},
		{"v6_watchdog", of{Condition: catalog.Partition, Instances: 2, InDatabase: true}, verdicts{ok}, 0},
		{"v8_fenced", of{Condition: catalog.Pause, Instances: 2}, verdicts{ok}, 0},
		{"v8_fenced", of{Condition: catalog.Pause, Instances: 2, Unfenced: true}, verdicts{sold}, 0},
		{"v9_cohort", of{Condition: catalog.Crash, Instances: 2, Items: 20}, verdicts{ok, drift}, 0},
		{"v9_cohort", of{Condition: catalog.Crash, Instances: 2, Items: 20, InDatabase: true}, verdicts{ok}, 0},
		{"lua_atomic", of{Condition: catalog.Failover, Instances: 2}, verdicts{ok, drift}, 0},
		{"lua_stream", of{Condition: catalog.Crash, Instances: 2, Items: 20}, verdicts{ok}, 0},
		{"none", of{Workload: reads, Condition: catalog.Calm, Instances: 2, SecondLook: true}, verdicts{again}, 3},
		{"local", of{Workload: reads, Condition: catalog.Calm, Instances: 2, SecondLook: true}, verdicts{again}, 2},
		{"v6_watchdog", of{Workload: reads, Condition: catalog.Slow, Instances: 2, SecondLook: true}, verdicts{ok}, 1},
		{"v6_watchdog", of{Workload: reads, Condition: catalog.Calm, Instances: 2, Requests: 5000}, verdicts{again},
			500},
	} {
		s, err := catalog.Strategies().Find(tt.strategy)
		if err != nil {
			t.Fatal(err)
		}
		e, known := s.Expect(tt.c)
		if !known || e.MinLoads != tt.loads {
			t.Errorf("%s, %+v: known %v, at least %d loads; want %d", tt.strategy, tt.c, known, e.MinLoads, tt.loads)
		}
		for _, verdict := range append(verdicts{sold, figures.Stuck}, tt.accepted...) {
			want := slices.Contains(tt.accepted, verdict)
			wrong := e.Check(catalog.Outcome{Verdict: verdict, MaxHolders: 1, Loads: tt.loads})
			if got := wrong.String() == ""; got != want {
				t.Errorf("%s, %+v: %s is accepted: %v, want %v", tt.strategy, tt.c, verdict, got, want)
			}
		}
	}
}

// Only strategies with a guard can guard the loads of the cache, so only they have expectations for
// them.
func TestKindsFit(t *testing.T) {
	for _, s := range catalog.Strategies() {
		guarded := s.Kind == catalog.Guarded
		if guarded != (s.Guard != nil) || guarded != s.GuardsLoads() {
			t.Errorf("%s: kind %d, guard %v, guards loads %v", s.Name, s.Kind, s.Guard != nil, s.GuardsLoads())
		}
		for _, condition := range catalog.Conditions() {
			if _, known := s.Expect(catalog.Case{Workload: catalog.Deduct, Condition: condition,
				Instances: 2}); !known {
				t.Errorf("%s under %s: there is no expectation for a sale", s.Name, condition)
			}
			if condition == catalog.Partition || condition == catalog.Failover || condition == catalog.Chaos {
				continue // these conditions are only for a sale
			}
			if _, known := s.Expect(catalog.Case{Workload: catalog.Cache, Condition: condition,
				Instances: 2}); known != guarded {
				t.Errorf("%s under %s: there is an expectation for the cache: %v", s.Name, condition, known)
			}
		}
	}
}

func TestCheckNamesEveryDifference(t *testing.T) {
	e := catalog.Expectation{Verdicts: []figures.Verdict{figures.OK}, MaxHolders: 1, MinLoads: 2, MaxLoads: 3}
	if wrong := e.Check(catalog.Outcome{Verdict: figures.OK, MaxHolders: 1, Loads: 2}); wrong.String() != "" {
		t.Errorf("the expected outcome was refused: %s", wrong)
	}
	wrong := e.Check(catalog.Outcome{Verdict: figures.Drift, MaxHolders: 2, Loads: 4})
	want := "verdict drift instead of ok, 2 holders at once instead of at most 1, 4 loads instead of at most 3"
	if wrong.String() != want {
		t.Errorf("got %q, want %q", wrong, want)
	}
}

// Every test that the catalog names for a flaw exists, and is a test of the strategy's package if the
// strategy has one.
func TestCatalogNamesTestsThatExist(t *testing.T) {
	tests := make(map[string][]string) // the tests of each folder
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				name := f.Name.Name
				tests[""], tests[filepath.Dir(path)] = append(tests[""], name), append(tests[filepath.Dir(path)], name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range catalog.Strategies() {
		own := filepath.Join("..", "locks", s.Name)
		if tests[own] == nil {
			own = ""
		}
		if !slices.Contains(tests[own], s.Test) {
			t.Errorf("%s: there is no test %s in %q", s.Name, s.Test, own)
		}
	}
}
