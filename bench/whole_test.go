//go:build system

package main

import (
	"encoding/json"
	"os"
	"oversell/internal/bench/holdsale"
	"oversell/internal/catalog"
	"path/filepath"
	"strings"
	"testing"
)

// A lock that does not do what the catalog says of it is found out.
func TestExitCodeTellsABrokenLock(t *testing.T) {
	for _, tt := range []struct {
		what, broken string
		args         []string
	}{
		// The next one must come in during three tenths of the ttl.
		{"v4 deletes whatever lock is there", "v4", small("-strategies", "v4_lua", "-conditions", "late", "-ttl", "2s")},
		{"v6 renews nothing", "v6", small("-strategies", "v6_watchdog", "-conditions", "slow")},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if got := try(t, tt.args...); got.code != exitExpected {
				t.Errorf("unbroken: exit code %d, want %d\n%s%s", got.code, exitExpected, got.stdout, got.stderr)
			}
			t.Setenv(breaking, tt.broken)
			got := try(t, tt.args...)
			if got.code != exitUnexpected || got.stderr != "" {
				t.Errorf("broken: exit code %d, want %d\n%s%s", got.code, exitUnexpected, got.stdout, got.stderr)
			}
			for _, want := range []string{"oversold (!)", "The row did not match", "verdict oversold instead of ok"} {
				if !strings.Contains(got.stdout, want) {
					t.Errorf("broken: %q is not in\n%s", want, got.stdout)
				}
			}
		})
	}
}

// What is run twice, several times each, can be compared, and one run of it too.
func TestRepeatAndCompare(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, c := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json"), filepath.Join(dir, "c.json")
	for file, args := range map[string][]string{
		a: small("-repeat", "3"),
		b: small("-repeat", "2"),
		c: small("-repeat", "2", "-stock", "50"),
	} {
		got := try(t, append(args, "-strategies", "none,v6_watchdog", "-conditions", "calm", "-json", file)...)
		if got.code != exitExpected || got.stderr != "" || strings.ContainsAny(got.stdout, "\x1b\r") {
			t.Fatalf("exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
		}
		if !strings.Contains(got.stdout, "runs of 2 rows matched the catalog's expectations") || !strings.Contains(got.stdout, "each figure is the median of") {
			t.Errorf("stdout\n%s", got.stdout)
		}
	}

	got := tryCompare(a, b)
	if got.code != exitExpected || got.stderr != "" || !strings.Contains(got.stdout, "units sold per second") || !strings.Contains(got.stdout, "The verdicts are the same.") {
		t.Errorf("two files: exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
	got = tryCompare(a)
	if got.code != exitExpected || got.stderr != "" || !strings.Contains(got.stdout, "first\n") {
		t.Errorf("one file: exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
	got = tryCompare(a, c)
	if got.code != exitFailed || got.stdout != "" || !strings.HasSuffix(got.stderr, "they differ in stock (100, 50)\n") {
		t.Errorf("other sizes: exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
}

// A run of two workloads has a table of each in every form, and its report can be compared.
func TestRunOfTwoWorkloads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	json, html, alone := filepath.Join(dir, "both.json"), filepath.Join(dir, "both.html"), filepath.Join(dir, "alone.json")
	got := try(t, small("-strategies", "h3_claim,lua_stream", "-conditions", "calm", "-json", json, "-html", html)...)
	if got.code != exitExpected || got.stderr != "" {
		t.Fatalf("exit code %d, stderr %q, stdout\n%s", got.code, got.stderr, got.stdout)
	}
	first, second, _ := strings.Cut(got.stdout, "buyers who hold a unit and pay later")
	if !strings.Contains(first, "lua_stream") || strings.Contains(first, "h3_claim") || !strings.Contains(second, "h3_claim") || !strings.Contains(second, "All 2 rows matched") {
		t.Errorf("stdout\n%s", got.stdout)
	}
	r, err := read(json)
	if err != nil {
		t.Fatal(err)
	}
	parts := r.Parts()
	if len(parts) != 2 || len(parts[0].Rows) != 1 || len(parts[1].Rows) != 1 || parts[1].Rows[0].Held == nil || parts[1].Manifest.Requests != holdsale.DefaultBuyers {
		t.Errorf("parts: %+v", parts)
	}
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), `<table class="rows">`); n != 2 {
		t.Errorf("%d tables in the page, want 2", n)
	}

	if got := tryCompare(json, json); got.code != exitExpected || !strings.Contains(got.stdout, "until all agreed") || !strings.Contains(got.stdout, "Redis commands per request") {
		t.Errorf("exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
	if got := try(t, small("-strategies", "lua_stream", "-conditions", "calm", "-json", alone)...); got.code != exitExpected {
		t.Fatalf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := tryCompare(alone, json); got.code != exitExpected || !strings.Contains(got.stdout, "h3_claim under calm is only in "+json) {
		t.Errorf("exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
}

// Each lock of the shop can be measured alone, also those that need other servers, and by the
// name that the shop has for it.
func TestLockWorkloadTakesEveryLock(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range catalog.Strategies() {
		if s.Kind == catalog.Guarded && s.Name != "none" && s.Name != "local" && s.Needs != catalog.NeedsRueidis && s.Needs != catalog.NeedsZooKeeper {
			names = append(names, s.Name)
		}
	}
	got := try(t, "-workload", "lock", "-requests", "6", "-instances", "2", "-strategies", strings.Join(names, ","), "-json", "-")
	var r lockReport
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || got.code != exitExpected {
		t.Fatalf("exit code %d, %v\n%s", got.code, err, got.stderr)
	}
	if len(r.Rows) != len(names) {
		t.Errorf("%d rows, want one for each of %v", len(r.Rows), names)
	}
	for i, row := range r.Rows {
		if name, _, _ := strings.Cut(row.Strategy, "+"); name != names[i] {
			t.Errorf("for %s it ran %s", names[i], row.Strategy)
		}
		if row.Served != 6 {
			t.Errorf("%s: %d of 6 served, verdict %s, skipped %q", row.Strategy, row.Served, row.Verdict, row.Skipped)
		}
	}
}
