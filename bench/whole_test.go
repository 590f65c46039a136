//go:build system

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/bench"
)

// Two runs on private servers can be compared, and so can the strategies of one run.
func TestRepeatAndCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json")
	for _, file := range []string{a, b} {
		got := try(t, small("-redis", "local", "-db", "local", "-repeat", "2", "-strategies", "none,v6_watchdog",
			"-conditions", "calm", "-json", file)...)
		if got.code != exitExpected || got.stderr != "" ||
			!strings.Contains(got.stdout, "runs of 2 rows matched the catalog's expectations") {
			t.Fatalf("exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
		}
	}
	got := try(t, compareArg, a, b)
	if got.code != exitExpected || got.stderr != "" || !strings.Contains(got.stdout, "units sold per second") ||
		!strings.HasPrefix(last(got.stdout), "0 of 2 rows changed verdict") {
		t.Errorf("two files: exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
	if got = try(t, compareArg, a); got.code != exitExpected || got.stderr != "" ||
		!strings.Contains(last(got.stdout), "fastest that held: v6_watchdog") {
		t.Errorf("one file: exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
}

// last returns the last line of a text.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// A run of two workloads has one table per workload in every output format, and its report can be
// compared.
func TestRunOfTwoWorkloads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	json, html := filepath.Join(dir, "both.json"), filepath.Join(dir, "both.html")
	got := try(t, small("-strategies", "h3_claim,lua_stream", "-conditions", "calm", "-json", json, "-html", html)...)
	if got.code != exitExpected || got.stderr != "" {
		t.Fatalf("exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
	}
	first, second, _ := strings.Cut(got.stdout, "buyers who hold a unit and pay later")
	if !strings.Contains(first, "lua_stream") || strings.Contains(first, "h3_claim") ||
		!strings.Contains(second, "h3_claim") || !strings.Contains(second, "All 2 rows matched") {
		t.Errorf("stdout\n%s", got.stdout)
	}
	r, err := read(json)
	must(t, err)
	parts := r.Parts()
	if len(parts) != 2 || len(parts[0].Rows) != 1 || len(parts[1].Rows) != 1 || parts[1].Rows[0].Held == nil ||
		parts[1].Manifest.Requests != bench.HoldBuyers {
		t.Errorf("parts: %+v", parts)
	}
	page, err := os.ReadFile(html)
	must(t, err)
	if n := strings.Count(string(page), `<table class="rows">`); n != 2 {
		t.Errorf("%d tables in the page, want 2", n)
	}
	got = try(t, compareArg, json, json)
	if got.code != exitExpected || !strings.Contains(got.stdout, "until everything agreed") ||
		!strings.Contains(got.stdout, "Redis commands per request") {
		t.Errorf("exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
}

// Locks on other servers can be benchmarked too. On a busy machine, some contenders may give up
// because the nodes of Redlock reply too late.
func TestLockWorkloadOnOtherServers(t *testing.T) {
	t.Parallel()
	got := try(t, "-workload", "lock", "-requests", "6", "-instances", "2", "-strategies", "etcd,redlock", "-json", "-")
	if got.code != exitExpected {
		t.Fatalf("exit code %d\n%s", got.code, got.stderr)
	}
	var report lockReport
	must(t, json.Unmarshal([]byte(got.stdout), &report))
	if len(report.Rows) != 2 || report.Rows[0].Strategy != "etcd" || report.Rows[0].Served != 6 {
		t.Fatalf("%+v, want six deducts under etcd, and a row of redlock", report.Rows)
	}
	if r := report.Rows[1]; r.Strategy != "redlock+line:2ms" || r.Served+r.Told != 6 || r.MaxHolders > 1 {
		t.Errorf("%+v, want six contenders with an outcome", r)
	}
}
