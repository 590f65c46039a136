package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBadComparisonsAreSaidInOneLine(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.json")
	must(t, os.WriteFile(empty, nil, 0o600))
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"0 files given", nil},
		{"3 files given", []string{"a", "b", "c"}},
		{"no such file", []string{filepath.Join(dir, "none.json")}},
		{"is a directory", []string{dir}},
		{"empty.json: not a bench report: it is empty", []string{empty}},
	} {
		got := try(t, append([]string{compareArg}, tt.args...)...)
		if got.code != exitFailed || got.stdout != "" || !strings.HasPrefix(got.stderr, "bench: compare: ") ||
			!strings.Contains(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want one line with %q", tt.args, got.code, got.stdout,
				got.stderr, tt.want)
		}
	}
}

func TestHelpOfCompare(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		if got := try(t, compareArg, arg); got.code != exitExpected || got.stderr != "" ||
			!strings.Contains(got.stdout, "Usage: bench compare") {
			t.Errorf("%s: exit code %d, %q, %q", arg, got.code, got.stdout, got.stderr)
		}
	}
}

// Flags that may contain a password are left out of the report.
func TestFlagsOfTheReport(t *testing.T) {
	o, err := parse([]string{"-redis", "redis://:secret@h:1", "-db", "u:secret@tcp(h:1)/d", "-repeat", "3"})
	must(t, err)
	if got := strings.Join(o.given, " "); got != "-db=… -redis=… -repeat=3" {
		t.Errorf("the flags are %q", got)
	}
}
