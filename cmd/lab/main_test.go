package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"oversell/internal/lab"
)

func TestMain(m *testing.M) {
	logging.Disable()
	// A client that could not dial tries again, and notices only a second later
	// that it is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// runs runs the program and returns what it printed.
func runs(t *testing.T, columns []lab.Column, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := program{columns: columns, scenarios: lab.Scenarios(), stdout: &out, stderr: &errs}
	if code := p.run(t.Context(), args); code != want {
		t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, &out, &errs)
	}
	return out.String(), errs.String()
}

// try runs the program for its report.
func try(t *testing.T, columns []lab.Column, want int, args ...string) lab.Report {
	t.Helper()
	out, _ := runs(t, columns, want, append(args, "-json", "-")...)
	var r lab.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

func TestMatrix(t *testing.T) {
	out, _ := runs(t, lab.Columns(), exitExpected, "-run", "check-then-delete,foreign-delete", "-strategy", "v3_uuid,v4_lua")
	for _, want := range []string{"check-then-delete", "foreign-delete", "miniredis"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// From the README to v3's race as a timeline is one command.
func TestTimeline(t *testing.T) {
	out, _ := runs(t, lab.Columns(), exitExpected, "-run", "check-then-delete", "-strategy", "v3_uuid")
	for _, want := range []string{"GET lock", "DEL lock", "BREAKS"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestYourLockIsGraded(t *testing.T) {
	out, _ := runs(t, lab.Columns(), exitExpected, "-strategy", "yours")
	for _, want := range []string{
		"v1_setnx      keeps 17 of 17",
		"The first promise that it breaks is orphan-after-crash, which v2_ttl is the first to keep",
		"go run ./cmd/lab -run orphan-after-crash -strategy yours",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	page, report := filepath.Join(dir, "lab.html"), filepath.Join(dir, "lab.json")
	runs(t, lab.Columns(), exitExpected, "-run", "lost-update", "-strategy", "none", "-html", page, "-json", report)
	var r lab.Report
	text, err := os.ReadFile(report)
	if err != nil || json.Unmarshal(text, &r) != nil || len(r.Cells) != 1 {
		t.Errorf("%v: %s", err, text)
	}
	if text, err = os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("lost-update")) {
		t.Errorf("%v: %d bytes", err, len(text))
	}
}

func TestTableInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("no marks")
	runs(t, lab.Columns(), exitFailed, "-readme", file)
	const before, after = "# Title\n", "\n## More\n"
	write(before + lab.TableBegin + "\nold\n" + lab.TableEnd + after)
	_, errs := runs(t, lab.Columns(), exitUnexpected, "-readme", file, "-check")
	if !strings.Contains(errs, "stale") {
		t.Errorf("it says %q", errs)
	}
	runs(t, lab.Columns(), exitExpected, "-readme", file)
	runs(t, lab.Columns(), exitExpected, "-readme", file, "-check")
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), before) || !strings.HasSuffix(string(text), after) {
		t.Errorf("%v\n%s", err, text)
	}
	for _, want := range []string{"| `v3_uuid` | a unique token", "`check-then-delete`", "`TestCheckThenDelete`"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-run", "nope"}, "lost-update"},
		{[]string{"-strategy", "v99"}, "v7_queue"},
		{[]string{"-strategy", "v99"}, "yours"},
		{[]string{"now"}, "-h"},
		{[]string{"-nope"}, "-h"},
		{[]string{"-ttl", "1ms"}, "300ms"},
		{[]string{"-ttl", "0"}, "300ms"},
		{[]string{"-run", ","}, "names nothing"},
		{[]string{"-strategy", ""}, "names nothing"},
		{[]string{"-redis", "redis://127.0.0.1:1,127.0.0.1:2"}, "one server"},
		{[]string{"-redis", "redis+sentinel://127.0.0.1:1/name"}, "one server"},
		{[]string{"-check"}, "-readme"},
		{[]string{"-readme", "x", "-run", "lost-update"}, "whole table"},
		{[]string{"-readme", filepath.Join("no", "such", "file")}, "no such file"},
		{[]string{"-redis", "memcached"}, "memcached"},
		{[]string{"-redis", "redis://127.0.0.1:1"}, "unreachable"},
	} {
		if _, errs := runs(t, lab.Columns(), exitFailed, tt.args...); !strings.Contains(errs, tt.want) {
			t.Errorf("%v: %q does not say %q", tt.args, errs, tt.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OVERSELL_REDIS", "redis://127.0.0.1:1")
	t.Setenv("OVERSELL_TTL", "1ms") // a shop's
	runs(t, lab.Columns(), exitFailed, "-run", "lost-update")
	runs(t, lab.Columns(), exitExpected, "-run", "lost-update", "-redis", "embedded")
}

func TestHelpAndList(t *testing.T) {
	if _, errs := runs(t, lab.Columns(), exitExpected, "-h"); !strings.Contains(errs, "Exit code") {
		t.Error(errs)
	}
	if out, _ := runs(t, lab.Columns(), exitExpected, "-list"); !strings.Contains(out, "retry-storm") || !strings.Contains(out, "yours") {
		t.Error(out)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := program{columns: lab.Columns(), scenarios: lab.Scenarios(), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	if code := p.run(ctx, nil); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
}
