package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/bench/report"
)

// With -json -, the table is printed on standard error. The table and the page are in Chinese, but
// the JSON is not.
func TestBenchInChinese(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.html")
	got := try(t, small("-strategies", "none,v6_watchdog", "-conditions", "calm", "-lang", "zh", "-json", "-", "-html",
		file)...)
	if got.code != exitExpected {
		t.Fatalf("exit code %d, stderr %q", got.code, got.stderr)
	}
	for _, want := range []string{"300 名并发买家，100 件库存", "\n无故障 calm\n", "全部 2 行都符合预期。", "守住的策略中最快：v6_watchdog"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in\n%s", want, got.stderr)
		}
	}
	checkJSON(t, []byte(got.stdout))
	page, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(page), "<h1>秒杀压测</h1>") || !strings.Contains(string(page), "uPlot") {
		t.Errorf("the page is not in Chinese, or has no plots: %v", err)
	}
}

func checkJSON(t *testing.T, text []byte) {
	t.Helper()
	var r report.Report
	must(t, json.Unmarshal(text, &r))
	if len(r.Rows) != 2 || r.Rows[1].Strategy != "v6_watchdog" || r.Rows[1].Sold != 100 || r.Manifest.TTL != "800ms" {
		t.Errorf("the report is %+v", r)
	}
}

// A single buyer cannot oversell even an unguarded stock, so the row differs from the catalog's
// expectation.
func TestExitCodeTellsAnUnexpectedRow(t *testing.T) {
	t.Parallel()
	got := try(t, strings.Fields("-requests 1 -stock 1 -instances 1 -strategies none -conditions calm")...)
	if got.code != exitUnexpected || !strings.Contains(got.stdout, "ok (!)") ||
		!strings.Contains(got.stdout, "The row did not match the catalog's expectation:") {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// The old report stays in place until the new one is complete. The table on standard output is plain.
func TestReportStaysUntilThereIsAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	json, html := filepath.Join(dir, "report.json"), filepath.Join(dir, "report.html")
	for _, file := range []string{json, html} {
		must(t, os.WriteFile(file, []byte("of yesterday"), 0o640))
	}
	files := []string{"-json", json, "-html", html}
	for _, args := range [][]string{
		append(small("-strategies", "none", "-conditions", "calm", "-redis", "redis://127.0.0.1:1"), files...),
		append([]string{"-workload", "lock", "-requests", "10", "-redis", "redis://127.0.0.1:1"}, files[:2]...),
	} {
		if got := try(t, args...); got.code != exitFailed {
			t.Fatalf("%v: exit code %d, want %d", args, got.code, exitFailed)
		}
		for _, file := range []string{json, html} {
			if text, err := os.ReadFile(file); err != nil || string(text) != "of yesterday" {
				t.Errorf("%s: after a run without rows it is %q, %v", file, text, err)
			}
		}
		checkAlone(t, dir, 2)
	}
	got := try(t, append(small("-strategies", "none,v6_watchdog", "-conditions", "calm"), files...)...)
	if got.code != exitExpected || got.stderr != "" {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	for _, want := range []string{"300 concurrent buyers, 100 units", "miniredis", "SQLite", "All 2 rows matched"} {
		if !strings.Contains(got.stdout, want) || strings.ContainsAny(got.stdout, "\x1b\r") {
			t.Errorf("stdout is not plain, or %q is not in\n%q", want, got.stdout)
		}
	}
	text, err := os.ReadFile(json)
	must(t, err)
	checkJSON(t, text)
	if info, err := os.Stat(json); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("it may be read and written as %v, %v; want what was allowed before", info.Mode().Perm(), err)
	}
	checkAlone(t, dir, 2)
}

// checkAlone fails the test unless the folder contains exactly n files.
func checkAlone(t *testing.T, dir string, n int) {
	t.Helper()
	if all, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(all) != n {
		t.Errorf("files: %v, %v; want %d", all, err, n)
	}
}
