package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/lab"
)

// Each break is printed with a command that replays it and reaches the goal.
func TestSearchPrintsCommandsThatReplayIt(t *testing.T) {
	out, stderr := runs(t, exitExpected, "-search", "v1,v2")
	if stderr != "" {
		t.Errorf("on standard error, which is no terminal: %q", stderr)
	}
	if !strings.Contains(out, "time passes, 1 freeze, 1 kill, 1 lost reply") {
		t.Errorf("the budget is not stated:\n%s", out)
	}
	if strings.Count(out, "impossible: ") != 6 { // v1: all goals but stuck; v2: stuck and self-wait
		t.Errorf("impossible is not what it was:\n%s", out)
	}
	replayed := 0
	for line := range strings.Lines(out) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "go run ./cmd/lab ")
		if !ok {
			continue
		}
		replayed++
		again, _ := runs(t, exitExpected, strings.Fields(command)...)
		if !strings.Contains(again, "reached: ") {
			t.Errorf("%s does not reach its goal:\n%s", command, again)
		}
	}
	if replayed != 4 {
		t.Errorf("%d breaks were replayed, want 4:\n%s", replayed, out)
	}
}

// All can be named among other strategies. It does not include yours.
func TestSearchOfAll(t *testing.T) {
	for args, want := range map[string]int{"all": 1, "v2,all": 1, "all,yours": 0} {
		o, err := program{}.parse([]string{"-search", args})
		if got := len(o.schedules.subjects); err != nil || got != len(lab.Levels())-want {
			t.Errorf("-search %s: %d strategies, %v", args, got, err)
		}
	}
}

// The columns are aligned for strategies with short and long names, in both languages.
func TestSearchIsAligned(t *testing.T) {
	for _, language := range []string{"en", "zh"} {
		all, _ := runs(t, exitExpected, "-search", "none,v1", "-lang", language)
		out, _, _ := strings.Cut(all, "\n\n") // drop the table that follows
		starts := make(map[int]int)
		for line := range strings.Lines(out) {
			name, rest, _ := strings.Cut(line, " ")
			if name == "none" || name == "v1_setnx" {
				starts[len(line)-len(strings.TrimLeft(rest, " "))]++
			}
		}
		if column, lines := 14, 12; len(starts) != 1 || starts[column] != lines {
			t.Errorf("-lang %s: lines go on at the columns %v:\n%s", language, starts, out)
		}
	}
}

// A goal about a lock does not apply to a strategy without a lock, and a goal about a lock in Redis
// does not apply to a strategy with its lock elsewhere. Neither is called impossible.
func TestSearchSaysWhatDoesNotApply(t *testing.T) {
	out, _ := runs(t, exitExpected, "-search", "none,local,watch")
	for _, want := range []string{
		"none          overlap         n/a: there is no lock", "none          foreign-delete  n/a",
		"none          self-wait       n/a",
		"none          stuck           impossible: ", "watch         overlap         n/a: there is no lock",
		"watch         foreign-delete  n/a",
		"watch         self-wait       n/a", "watch         oversell        impossible: ",
		"local         overlap         2 moves",
		"local         foreign-delete  n/a: its lock is in its process", "local         self-wait       n/a",
		"local         stuck           impossible: ",
		"none   4 moves     n/a      n/a             n/a        impossible",
		"local  4 moves     2 moves  n/a             n/a        impossible",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

// The results of several searches are printed as a table. The program detects a stale table in a
// file.
func TestSearchWritesTheTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "table.md")
	if err := os.WriteFile(file, []byte("# T\n<!-- search:begin -->\nold\n<!-- search:end -->\nend\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-search", "none,v1", "-goal", "stuck", "-readme", file}
	if _, stderr := runs(t, exitUnexpected, append(args, "-check")...); !strings.Contains(stderr, "stale") {
		t.Errorf("%q, want that the table is stale", stderr)
	}
	out, _ := runs(t, exitExpected, args...)
	if !strings.Contains(out, "v1_setnx  1 move  ") || !strings.Contains(out, "none      impossible") {
		t.Errorf("no table:\n%s", out)
	}
	runs(t, exitExpected, append(args, "-check")...)
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "# T\n") ||
		!strings.HasSuffix(string(text), "<!-- search:end -->\nend\n") || strings.Contains(string(text), "old") {
		t.Errorf("%v: the file is\n%s", err, text)
	}
	record := filepath.Join(t.TempDir(), "record.json")
	runs(t, exitExpected, "-search", "none", "-record", record)
	if text, err = os.ReadFile(record); err != nil || !strings.Contains(string(text), `"strategy": "v9_cohort"`) {
		t.Errorf("%v: the record is\n%s", err, text)
	}
}
