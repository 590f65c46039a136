package report_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// measured returns a report of three strategies under two conditions, in several runs with noise.
// Latencies are multiplied by the factor.
func measured(runs int, factor float64) report.Report {
	r := report.Report{Manifest: report.Manifest{
		Format: 1, Redis: "redis 7.0.15 (local)", DB: "MariaDB 10.11.6 (local)", Go: "go1.26.8", OS: "linux/amd64",
		CPUs:    2,
		Version: "0123abcd", Requests: 5000, Stock: 1000, Workload: "deduct", Instances: 2, Repeat: runs,
		TTL: "1s", Work: "0s", Wait: "12.8s", Retry: "line:2ms", Keys: "none", SecondLook: true,
	}}
	for run := 1; run <= runs; run++ {
		noise := float64(run%5) - 2
		for _, c := range []catalog.Condition{catalog.Calm, catalog.Slow} {
			for i, strategy := range []string{"none", "watch", "v6_watchdog"} {
				r.Rows = append(r.Rows, report.Row{
					Asked: report.Asked{Key: report.Key{Strategy: strategy, Condition: c, Workload: catalog.Deduct},
						Repeat: run, Requests: 5000, Stock: 1000, TTL: "1s"},
					Verdict: figures.OK, Expected: true,
					Load: report.Load{
						P50: 100*float64(i+1)*factor + noise, P99: 200 + 10*noise,
						Throughput: 1000/float64(i+1)/factor + noise, RedisCommands: new(2 + float64(i)/2),
					},
				})
			}
		}
	}
	return r
}

func file(name string, r report.Report) report.File { return report.File{Name: name, Report: r} }

// changes returns what changed from one report to another.
func changes(t *testing.T, a, b report.Report) string {
	t.Helper()
	var got strings.Builder
	must(t, report.CompareFiles(&got, file("a.json", a), file("b.json", b)))
	return got.String()
}

func TestComparison(t *testing.T) {
	broken := measured(6, 1.1)
	broken.Manifest.Version, broken.Manifest.CPUs = "4567cdef", 8
	for i, row := range broken.Rows {
		if row.Strategy == "v6_watchdog" && row.Condition == catalog.Slow && row.Repeat == 2 {
			broken.Rows[i].Verdict, broken.Rows[i].Expected, broken.Rows[i].TTL = figures.Oversold, false, "2s"
			broken.Rows[i].Discarded = []report.Discarded{{TTL: "1s", Verdict: figures.OK, Stalled: 400}}
		}
	}
	fewer := measured(6, 1)
	fewer.Rows = fewer.Rows[:len(fewer.Rows)/6]
	for name, write := range map[string]func(w io.Writer) error{
		"files": func(w io.Writer) error {
			return report.CompareFiles(w, file("old.json", measured(6, 1)), file("new.json", broken))
		},
		"few": func(w io.Writer) error {
			return report.CompareFiles(w, file("old.json", measured(6, 1.1)), file("new.json", fewer))
		},
		"strategies": func(w io.Writer) error { return report.CompareStrategies(w, file("new.json", broken)) },
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			must(t, write(&got))
			checkGolden(t, name+".txt", got.Bytes())
		})
	}
}

// Reports with different settings are not compared. The error names these settings in one line.
func TestReportsOfDifferentThings(t *testing.T) {
	for want, change := range map[string]func(m *report.Manifest){
		"redis (redis 7.0.15 (local), miniredis 2.40.0 (embedded))": func(m *report.Manifest) {
			m.Redis = "miniredis 2.40.0 (embedded)"
		},
		"db (MariaDB 10.11.6 (local), MySQL 8)": func(m *report.Manifest) { m.DB = "MySQL 8" },
		"go (go1.26.8, go1.27)":                 func(m *report.Manifest) { m.Go = "go1.27" },
		"format (1, 2)":                         func(m *report.Manifest) { m.Format = 2 },
		"workload (deduct, cache)":              func(m *report.Manifest) { m.Workload = "cache" },
		"requests (5000, 300)":                  func(m *report.Manifest) { m.Requests = 300 },
		"stock (1000, 10)":                      func(m *report.Manifest) { m.Stock = 10 },
		"instances (2, 3)":                      func(m *report.Manifest) { m.Instances = 3 },
		"ttl (1s, 2s)":                          func(m *report.Manifest) { m.TTL = "2s" },
		"work (0s, 1ms)":                        func(m *report.Manifest) { m.Work = "1ms" },
		"wait (12.8s, 20s)":                     func(m *report.Manifest) { m.Wait = "20s" },
		"keys (none, pairs)":                    func(m *report.Manifest) { m.Keys = "pairs" },
		"second look (true, false)":             func(m *report.Manifest) { m.SecondLook = false },
		"requests (5000, 7), stock (1000, 8)": func(m *report.Manifest) {
			m.Requests, m.Stock = 7,
				8
		},
	} {
		other := measured(1, 1)
		change(&other.Manifest)
		err := report.CompareFiles(io.Discard, file("a.json", measured(1, 1)), file("b.json", other))
		if err == nil || err.Error() != "a.json and b.json cannot be compared: they differ in "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	other := measured(1, 1)
	for i := range other.Rows {
		other.Rows[i].Strategy = "v" + other.Rows[i].Strategy
	}
	if err := report.CompareFiles(io.Discard, file("a.json", measured(1, 1)), file("b.json", other)); err == nil ||
		!strings.Contains(err.Error(), "no row in common") {
		t.Errorf("no row in common: %v", err)
	}
	other.Rows = other.Rows[:1]
	if err := report.CompareStrategies(io.Discard, file("a.json", other)); err == nil ||
		!strings.Contains(err.Error(), "no condition with two strategies") {
		t.Errorf("one strategy: %v", err)
	}
}

// The ports of servers that the bench started are not compared, because they differ from run to
// run. The addresses of other servers must be equal.
func TestPortsOfPrivateServersAreNotCompared(t *testing.T) {
	on := func(redis, db string, flags ...string) report.File {
		r := both()
		for _, m := range []*report.Manifest{&r.Manifest, &r.Manifest.Also[0]} {
			m.Redis, m.DB = redis, db
		}
		r.Manifest.Flags = flags
		return file("a.json", r)
	}
	local, cluster, named := []string{"-db=local", "-redis=local"}, []string{"-db=local", "-redis=local:cluster"},
		[]string{"-db=…", "-redis=…"}
	for name, tt := range map[string]struct {
		redis, db string // instead of redis 7 at h:1 and MariaDB 10 at h:2
		old, now  []string
		differ    bool
	}{
		"other ports":    {"redis 7 at h:3", "MariaDB 10 at h:4", local, local, false},
		"a cluster":      {"redis 7 at h:3,h:4", "MariaDB 10 at h:2", cluster, cluster, false},
		"other versions": {"redis 8 at h:1", "MariaDB 10 at h:2", local, local, true},
		"other kinds":    {"redis 7 at h:1", "MySQL 10 at h:2", local, local, true},
		"named by users": {"redis 7 at h:3", "MariaDB 10 at h:2", named, named, true},
		"one is named":   {"redis 7 at h:1", "MariaDB 10 at h:2", local, named, true},
	} {
		a, b := on("redis 7 at h:1", "MariaDB 10 at h:2", tt.old...), on(tt.redis, tt.db, tt.now...)
		if err := report.CompareFiles(io.Discard, a, b); (err != nil) != tt.differ {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A change from a median of zero is shown without a ratio.
func TestNothingHasNoRatio(t *testing.T) {
	old, changed := measured(6, 1), measured(6, 1)
	for i := range old.Rows {
		old.Rows[i].Throughput = 0
	}
	got := changes(t, old, changed)
	if strings.Count(got, "from 0") != 7 || strings.Contains(got, "Inf") {
		t.Errorf("got\n%s", got)
	}
}
