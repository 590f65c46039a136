package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/bench"
)

func TestTableOnStandardOutputIsPlain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	got := try(t, small("-strategies", "none,v6_watchdog", "-conditions", "calm", "-json", file)...)
	if got.code != exitExpected || got.stderr != "" {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	for _, want := range []string{"300 concurrent buyers, 100 units", "miniredis", "SQLite", "All 2 rows came out"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("%q is not in\n%s", want, got.stdout)
		}
	}
	if strings.ContainsAny(got.stdout, "\x1b\r") {
		t.Errorf("stdout is not plain: %q", got.stdout)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	checkJSON(t, text)
}

func TestJSONOnStandardOutputIsAlone(t *testing.T) {
	got := try(t, small("-strategies", "none,v6_watchdog", "-conditions", "calm", "-json", "-")...)
	if got.code != exitExpected || !strings.Contains(got.stderr, "All 2 rows came out") {
		t.Errorf("exit code %d, stderr %q", got.code, got.stderr)
	}
	checkJSON(t, []byte(got.stdout))
}

func checkJSON(t *testing.T, text []byte) {
	t.Helper()
	var r bench.Report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 2 || r.Rows[1].Strategy != "v6_watchdog" || r.Rows[1].Sold != 100 || r.Manifest.TTL != "800ms" {
		t.Errorf("the report is %+v", r)
	}
}
