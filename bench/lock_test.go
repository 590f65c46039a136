package main

import (
	"encoding/json"
	"strings"
	"testing"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
)

// locksOnly returns the flags for a short lock benchmark.
func locksOnly(args ...string) []string {
	return append(strings.Fields("-workload lock -requests 40 -instances 2"), args...)
}

// lockReport has the fields of a JSON lock report that these tests check.
type lockReport struct {
	Manifest report.Manifest
	Rows     []struct {
		report.Key
		Repeat  int
		Verdict figures.Verdict
		report.Lock
	}
	Summary []struct {
		Throughput figures.Estimate `json:"deducts_per_s"`
	}
}

func TestLockWorkload(t *testing.T) {
	t.Parallel()
	got := try(t, locksOnly("-strategies", "v7_queue,v4_lua+line:2ms", "-repeat", "2", "-json", "-")...)
	if got.code != exitExpected {
		t.Fatalf("exit code %d\n%s", got.code, got.stderr)
	}
	var report lockReport
	must(t, json.Unmarshal([]byte(got.stdout), &report))
	if report.Manifest.ID == "" {
		t.Error("the report does not name the run")
	}
	var names []string
	for _, row := range report.Rows {
		names = append(names, row.Strategy)
		if row.Served != 40 || row.MaxHolders != 1 || row.Processes != 2 || row.Verdict != figures.OK {
			t.Errorf("run %d of %s: %+v", row.Repeat, row.Strategy, row)
		}
	}
	// All contenders run once before the first contender runs again.
	if want := "v7_queue v4_lua+line:2ms v7_queue v4_lua+line:2ms"; strings.Join(names, " ") != want {
		t.Errorf("ran %v, want %s", names, want)
	}
	if len(report.Summary) != 2 || report.Summary[0].Throughput.Median <= 0 {
		t.Errorf("summary %+v", report.Summary)
	}
	for _, part := range []string{"40 contenders for one lock, in 2 processes", "calm, run 2 of 2", "medians of 2 runs",
		"fastest that held: v"} {
		if !strings.Contains(got.stderr, part) {
			t.Errorf("%q is not in\n%s", part, got.stderr)
		}
	}
}
