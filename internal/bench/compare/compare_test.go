package compare_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/bench"
	"oversell/internal/bench/compare"
	"oversell/internal/figures"
	"oversell/internal/locks"
)

var update = flag.Bool("update", false, "write the golden files anew")

// report is one of three strategies under two conditions, in runs with noise.
// Latencies grow by the factor.
func report(runs int, factor float64) bench.Report {
	r := bench.Report{Manifest: bench.Manifest{
		Format: 1, Redis: "redis 7.0.15 (local)", DB: "MariaDB 10.11.6 (local)", Go: "go1.26.8", OS: "linux/amd64", CPUs: 2,
		Version: "0123abcd", Requests: 5000, Stock: 1000, Workload: "deduct", Instances: 2, Repeat: runs,
		TTL: "1s", Work: "0s", Wait: "12.8s", Retry: "line:2ms", Keys: bench.NoKeys, SecondLook: true,
	}}
	for run := 1; run <= runs; run++ {
		noise := float64(run%5) - 2
		for _, c := range []locks.Condition{locks.Calm, locks.Slow} {
			for i, strategy := range []string{"none", "watch", "v6_watchdog"} {
				r.Rows = append(r.Rows, bench.Row{
					Strategy: strategy, Condition: c, Workload: locks.Deduct, Repeat: run, Requests: 5000, Stock: 1000,
					Verdict: figures.OK, Expected: true, TTL: "1s",
					P50: 100*float64(i+1)*factor + noise, P99: 200 + 10*noise,
					Throughput: 1000/float64(i+1)/factor + noise, RedisCommands: new(2 + float64(i)/2),
				})
			}
		}
	}
	return r
}

func file(name string, r bench.Report) compare.File { return compare.File{Name: name, Report: r} }

func TestComparison(t *testing.T) {
	broken := report(6, 1.1)
	broken.Manifest.Version, broken.Manifest.CPUs = "4567cdef", 8
	for i, row := range broken.Rows {
		if row.Strategy == "v6_watchdog" && row.Condition == locks.Slow && row.Repeat == 2 {
			broken.Rows[i].Verdict, broken.Rows[i].Expected, broken.Rows[i].TTL = figures.Oversold, false, "2s"
			broken.Rows[i].Discarded = []bench.Discarded{{TTL: "1s", Verdict: figures.OK, Stalled: 400}}
		}
	}
	fewer := report(6, 1)
	fewer.Rows = fewer.Rows[:len(fewer.Rows)/6]
	for name, write := range map[string]func(w io.Writer) error{
		"files": func(w io.Writer) error {
			c, err := compare.Files(file("old.json", report(6, 1)), file("new.json", broken))
			return errors.Join(err, c.WriteFiles(w))
		},
		"few": func(w io.Writer) error {
			c, err := compare.Files(file("old.json", report(6, 1.1)), file("new.json", fewer))
			return errors.Join(err, c.WriteFiles(w))
		},
		"strategies": func(w io.Writer) error {
			c, err := compare.Strategies(file("new.json", broken))
			return errors.Join(err, c.WriteStrategies(w))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := write(&got); err != nil {
				t.Fatal(err)
			}
			golden(t, name+".txt", got.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-update writes it anew); got:\n%s", path, got)
	}
}

// What is of different things is not compared, and the one line names them.
func TestReportsOfDifferentThings(t *testing.T) {
	for want, change := range map[string]func(m *bench.Manifest){
		"redis (redis 7.0.15 (local), miniredis 2.40.0 (embedded))": func(m *bench.Manifest) { m.Redis = "miniredis 2.40.0 (embedded)" },
		"db (MariaDB 10.11.6 (local), MySQL 8)":                     func(m *bench.Manifest) { m.DB = "MySQL 8" },
		"go (go1.26.8, go1.27)":                                     func(m *bench.Manifest) { m.Go = "go1.27" },
		"format (1, 2)":                                             func(m *bench.Manifest) { m.Format = 2 },
		"workload (deduct, cache)":                                  func(m *bench.Manifest) { m.Workload = "cache" },
		"requests (5000, 300)":                                      func(m *bench.Manifest) { m.Requests = 300 },
		"stock (1000, 10)":                                          func(m *bench.Manifest) { m.Stock = 10 },
		"instances (2, 3)":                                          func(m *bench.Manifest) { m.Instances = 3 },
		"ttl (1s, 2s)":                                              func(m *bench.Manifest) { m.TTL = "2s" },
		"work (0s, 1ms)":                                            func(m *bench.Manifest) { m.Work = "1ms" },
		"wait (12.8s, 20s)":                                         func(m *bench.Manifest) { m.Wait = "20s" },
		"keys (none, pairs)":                                        func(m *bench.Manifest) { m.Keys = bench.PairedKeys },
		"second look (true, false)":                                 func(m *bench.Manifest) { m.SecondLook = false },
		"requests (5000, 7), stock (1000, 8)":                       func(m *bench.Manifest) { m.Requests, m.Stock = 7, 8 },
	} {
		other := report(1, 1)
		change(&other.Manifest)
		_, err := compare.Files(file("a.json", report(1, 1)), file("b.json", other))
		if !errors.Is(err, compare.ErrDiffer) || err.Error() != "a.json and b.json cannot be compared: they differ in "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	other := report(1, 1)
	for i := range other.Rows {
		other.Rows[i].Strategy = "v" + other.Rows[i].Strategy
	}
	if _, err := compare.Files(file("a.json", report(1, 1)), file("b.json", other)); !errors.Is(err, compare.ErrDiffer) || !strings.Contains(err.Error(), "no row in common") {
		t.Errorf("no row in common: %v", err)
	}
	other.Rows = other.Rows[:1]
	if _, err := compare.Strategies(file("a.json", other)); !errors.Is(err, compare.ErrDiffer) || !strings.Contains(err.Error(), "no condition with two strategies") {
		t.Errorf("one strategy: %v", err)
	}
}

// Two runs of one thing do not differ, however many there are.
func TestNoiseIsNoDifference(t *testing.T) {
	for _, runs := range []int{1, 3, 20} {
		c, err := compare.Files(file("a.json", report(runs, 1)), file("b.json", report(runs, 1)))
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := c.WriteFiles(&got); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.String(), "%") || strings.Count(got.String(), "no difference\n") != 4*6 || !strings.Contains(got.String(), "The verdicts are the same.") {
			t.Errorf("%d runs:\n%s", runs, &got)
		}
	}
}

// Of one run each there is no telling what is noise.
func TestSingleRunsAreDoubtful(t *testing.T) {
	c, err := compare.Files(file("a.json", report(1, 1)), file("b.json", report(1, 1.5)))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := c.WriteFiles(&got); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got.String(), "+50.3% ?") || !strings.Contains(got.String(), "with so few runs") {
		t.Errorf("got\n%s", &got)
	}
}

// What a median is nothing to begin with has no ratio.
func TestNothingHasNoRatio(t *testing.T) {
	old, changed := report(6, 1), report(6, 1)
	for i := range old.Rows {
		old.Rows[i].Throughput = 0
	}
	c, err := compare.Files(file("a.json", old), file("b.json", changed))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := c.WriteFiles(&got); err != nil {
		t.Fatal(err)
	}
	if strings.Count(got.String(), "from nothing") != 6 || strings.Contains(got.String(), "Inf") {
		t.Errorf("got\n%s", &got)
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestComparisonThatCannotBeWrittenIsAnError(t *testing.T) {
	c, err := compare.Strategies(file("a.json", report(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.WriteStrategies(full{}); !errors.Is(err, errFull) {
		t.Errorf("strategies: %v", err)
	}
	if err := c.WriteFiles(full{}); !errors.Is(err, errFull) {
		t.Errorf("files: %v", err)
	}
}
