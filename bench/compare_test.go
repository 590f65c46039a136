package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/bench/report"
)

// tryCompare runs the program's comparison.
func tryCompare(args ...string) outcome {
	var stdout, stderr bytes.Buffer
	code := compareReports(args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// What is run twice, several times each, can be compared, and one run of it too.
func TestRepeatAndCompare(t *testing.T) {
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
	if got.code != exitExpected || got.stderr != "" || !strings.Contains(got.stdout, "vs first") {
		t.Errorf("one file: exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
	got = tryCompare(a, c)
	if got.code != exitFailed || got.stdout != "" || !strings.HasSuffix(got.stderr, "they differ in stock (100, 50)\n") {
		t.Errorf("other sizes: exit code %d, %q\n%s", got.code, got.stderr, got.stdout)
	}
}

func TestBadComparisonsAreSaidInOneLine(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"0 files given", nil},
		{"3 files given", []string{"a", "b", "c"}},
		{"no such file", []string{filepath.Join(dir, "none.json")}},
		{"is a directory", []string{dir}},
		{"empty.json: " + report.ErrFormat.Error() + ": it is empty", []string{write("empty.json", "")}},
		{"cut.json: " + report.ErrFormat.Error() + ": the file ends in the middle", []string{write("cut.json", `{"manifest":{"redis":`)}},
		{"old.json: " + report.ErrFormat.Error() + ": it has format 9", []string{write("old.json", `{"manifest":{"format":9},"rows":[]}`)}},
	} {
		got := tryCompare(tt.args...)
		if got.code != exitFailed || got.stdout != "" || !strings.HasPrefix(got.stderr, "bench: compare: ") ||
			!strings.Contains(got.stderr, tt.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want one line with %q", tt.args, got.code, got.stdout, got.stderr, tt.want)
		}
	}
}

func TestHelpOfCompare(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		if got := tryCompare(arg); got.code != exitExpected || got.stderr != "" || !strings.Contains(got.stdout, "Usage: bench compare") {
			t.Errorf("%s: exit code %d, %q, %q", arg, got.code, got.stdout, got.stderr)
		}
	}
}

// What may hold a password is in no report.
func TestFlagsOfTheReport(t *testing.T) {
	o, err := parse([]string{"-redis", "redis://:secret@h:1", "-db", "u:secret@tcp(h:1)/d", "-repeat", "3"})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.given, " "); got != "-db=… -redis=… -repeat=3" {
		t.Errorf("the flags are %q", got)
	}
}
