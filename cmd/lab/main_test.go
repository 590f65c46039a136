package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
	"oversell/internal/lab/sales"
)

// asProgram in the environment makes the test binary run the program.
const asProgram = "LAB_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	logging.Disable()
	debug.SetGCPercent(400) // the lab makes much garbage and keeps little
	if os.Getenv(asProgram) != "" {
		main()
	}
	// A client that could not dial tries again, and notices only a second later
	// that it is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// runs runs the program and returns what it printed.
func runs(t *testing.T, subjects []lab.Subject, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	return perform(t, program{subjects: subjects, stages: sales.Subjects(), pools: sales.Pools(), writers: sales.Writers()}, want, args...)
}

// perform is runs for a program that knows of these subjects.
func perform(t *testing.T, p program, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p.scenarios, p.stdout, p.stderr = everything(), &out, &errs
	if code := p.run(t.Context(), args); code != want {
		t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, &out, &errs)
	}
	return out.String(), errs.String()
}

// try runs the program for its report.
func try(t *testing.T, subjects []lab.Subject, want int, args ...string) lab.Report {
	t.Helper()
	out, _ := runs(t, subjects, want, append(args, "-json", "-")...)
	var r lab.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

func TestMatrix(t *testing.T) {
	out, _ := runs(t, lab.Subjects(), exitExpected, "-run", "check-then-delete,foreign-delete", "-strategy", "v3_uuid,v4_lua")
	for _, want := range []string{"check-then-delete", "foreign-delete", "miniredis"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// From the README to v3's race as a timeline is one command.
func TestTimeline(t *testing.T) {
	out, _ := runs(t, lab.Subjects(), exitExpected, "-run", "check-then-delete", "-strategy", "v3_uuid")
	for _, want := range []string{"GET lock", "DEL lock", "BREAKS"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestYourLockIsGraded(t *testing.T) {
	out, _ := runs(t, lab.Subjects(), exitExpected, "-strategy", "yours")
	kept := regexp.MustCompile(`v1_setnx +keeps (\d+) of (\d+)\n`).FindStringSubmatch(out)
	if kept == nil || kept[1] != kept[2] {
		t.Errorf("it does not keep all that v1_setnx keeps:\n%s", out)
	}
	for _, want := range []string{
		"The first promise that it breaks is orphan-after-crash, which v2_ttl is the first to keep",
		"go run ./cmd/lab -run orphan-after-crash -strategy yours",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Locks on other servers are tried where they are asked for, in real time, beside
// what is in virtual time.
func TestLocksOnOtherServers(t *testing.T) {
	r := try(t, lab.Subjects(), exitExpected, "-strategies", "redlock,etcd", "-run", "foreign-unlock,clock-jump-majority")
	for _, c := range r.Cells {
		want := lab.Holds
		switch {
		case c.Anomaly != "clock-jump-majority":
		case c.Strategy == "redlock":
			want = lab.Breaks
		default:
			want = lab.NA
		}
		if c.Outcome != want {
			t.Errorf("%s on %s: %s, want %s: %s", c.Anomaly, c.Strategy, c.Outcome, want, c.Note)
		}
	}
	alone := try(t, lab.Subjects(), exitExpected, "-strategies", "etcd", "-run", "foreign-unlock").Manifest
	if said := strings.Join(alone.Servers, "; "); alone.Virtual || alone.TTL != 2*time.Second || strings.Contains(said, "leases of") {
		t.Errorf("of etcd alone it says twice which lease it has: %v, %v", alone.TTL, alone.Servers)
	}
	if m := r.Manifest; !m.Virtual || !strings.Contains(strings.Join(m.Servers, "; "), "etcd in real time, with leases of 2s") {
		t.Errorf("virtual %v, %v", m.Virtual, m.Servers)
	}
}

// A Redis of one's own says nothing of nodes, so redlock is not tried there.
func TestNodesAreAskedFor(t *testing.T) {
	p := program{subjects: lab.Subjects(), scenarios: anomalies.All(), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	for args, want := range map[string]string{
		"":                               "embedded",
		"-redis local":                   "local",
		"-redis local -redlock embedded": "embedded",
		"-redis redis://a:1":             "",
		"-redis redis://a:1 -redlock a:2,a:3,a:4":    "a:2,a:3,a:4",
		"-redis redis://a:1 -strategy etcd":          "",
		"-redis redis://a:1 -strategies v6_watchdog": "",
	} {
		o, err := p.parse(strings.Fields(args))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		has := slices.ContainsFunc(o.locks.subjects, func(c lab.Subject) bool { return c.Name == "redlock" })
		named := strings.Contains(args, "strateg")
		if o.servers.Redlock != want || has != (want != "" && !named) {
			t.Errorf("%s: nodes %q, want %q; redlock has a subject: %v", args, o.servers.Redlock, want, has)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	page, report := filepath.Join(dir, "lab.html"), filepath.Join(dir, "lab.json")
	runs(t, lab.Subjects(), exitExpected, "-run", "lost-update", "-strategy", "none", "-html", page, "-json", report)
	var r lab.Report
	text, err := os.ReadFile(report)
	if err != nil || json.Unmarshal(text, &r) != nil || len(r.Cells) != 1 {
		t.Errorf("%v: %s", err, text)
	}
	if text, err = os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("lost-update")) {
		t.Errorf("%v: %d bytes", err, len(text))
	}
}

// A report that cannot be written is said before the run, not after it.
func TestFilesAreMadeBeforeTheRun(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "no", "such")
	for _, flag := range []string{"-html", "-json"} {
		ran := false
		p := watched(&ran)
		if code := p.run(t.Context(), []string{"-run", "lost-update", "-strategy", "none", flag, nowhere}); code != exitFailed || ran {
			t.Errorf("%s: exit code %d, and it ran: %v", flag, code, ran)
		}
		if errs := p.stderr.(*bytes.Buffer).String(); !strings.Contains(errs, flag) {
			t.Errorf("it says %q", errs)
		}
	}
}

// watched is a program that says whether a cell of none was run.
func watched(ran *bool) program {
	subjects := lab.Subjects()
	for i := range subjects {
		if make := subjects[i].Guard; make != nil {
			subjects[i].Guard = func(p *lab.Process) guard.Guard {
				*ran = true
				return make(p)
			}
		}
	}
	return program{subjects: subjects, scenarios: anomalies.All(), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
}

// What an interrupted run would have replaced is as it was, and nothing lies beside.
func TestInterruptedRunLeavesTheOldReport(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "lab.html")
	if err := os.WriteFile(page, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := watched(new(bool))
	if code := p.run(ctx, []string{"-html", page, "-json", filepath.Join(dir, "lab.json")}); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	text, err := os.ReadFile(page)
	if err != nil || string(text) != "old" {
		t.Errorf("%v: %q", err, text)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v: there are %v", err, left)
	}
}

// A file that is there is replaced with the rights that it has, and a link to it stays
// one.
func TestFilesAreReplacedWhereTheyAre(t *testing.T) {
	dir := t.TempDir()
	page, link := filepath.Join(dir, "lab.html"), filepath.Join(dir, "link")
	if err := os.WriteFile(page, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(page, link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	runs(t, lab.Subjects(), exitExpected, "-run", "lost-update", "-strategy", "none", "-html", link)
	text, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(text, []byte("lost-update")) {
		t.Errorf("%v: %q", err, text)
	}
	is, err := os.Stat(page)
	if err != nil || is.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", is.Mode(), err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("%v: there are %v", err, left)
	}
}

func TestTableInAFile(t *testing.T) {
	tables := program{subjects: lab.Subjects()[4:6], stages: sales.Subjects()[:1], writers: sales.Writers()[:1]}
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("no marks")
	perform(t, tables, exitFailed, "-readme", file)
	const before, after = "# Title\n", "\n## More\n"
	write(before + lab.TableBegin + "\nold\n" + lab.TableEnd + after)
	_, errs := perform(t, tables, exitUnexpected, "-readme", file, "-check")
	if !strings.Contains(errs, "stale") {
		t.Errorf("it says %q", errs)
	}
	perform(t, tables, exitExpected, "-readme", file)
	perform(t, tables, exitExpected, "-readme", file, "-check")
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
		{[]string{"-redis", "local:cluster"}, "one server"},
		{[]string{"-check"}, "-readme"},
		{[]string{"-readme", "x", "-run", "lost-update"}, "whole table"},
		{[]string{"-readme", filepath.Join("no", "such", "file")}, "no such file"},
		{[]string{"-redis", "memcached"}, "memcached"},
		{[]string{"-redis", "redis://127.0.0.1:1", "-strategy", "redlock"}, "-redlock"},
		{[]string{"-redis", "redis://127.0.0.1:1", "-readme", "x"}, "-redlock"},
		{[]string{"-strategy", "redlock", "-redlock", "127.0.0.1:1,127.0.0.1:2"}, "must name 3"},
		{[]string{"-strategy", "redlock", "-redlock", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3"}, "unreachable"},
		{[]string{"-strategies", "etcd", "-etcd", "memcached"}, "-etcd"},
		{[]string{"-strategies", "zookeeper", "-zookeeper", "memcached"}, "-zookeeper"},
		{[]string{"-strategies", "etcd", "-etcd", ""}, "names nothing"},
		{[]string{"-goal", "oversell"}, "-goal is not a flag of the table, which takes -run, "},
		{[]string{"-list", "-run", "lost-update"}, "-run is not a flag of -list, which takes -list, -lang"},
		{[]string{"-strategy", "none", "-strategies", "local"}, "are the same flag"},
		{[]string{"-json", "-", "-html", "-"}, "-html must be a file"},
		{[]string{"-strategies", "sql_version"}, "does not try strategy \"sql_version\": it works in the database"},
		{[]string{"-redis", "redis://127.0.0.1:1"}, "unreachable"},
	} {
		if _, errs := runs(t, lab.Subjects(), exitFailed, tt.args...); !strings.Contains(errs, tt.want) {
			t.Errorf("%v: %q does not say %q", tt.args, errs, tt.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OVERSELL_REDIS", "redis://127.0.0.1:1")
	t.Setenv("OVERSELL_TTL", "1ms") // a shop's
	runs(t, lab.Subjects(), exitFailed, "-run", "lost-update")
	runs(t, lab.Subjects(), exitExpected, "-run", "lost-update", "-redis", "embedded")
}

// Each flag is one that a mode takes, and each mode takes flags that there are.
func TestEveryFlagIsOfAMode(t *testing.T) {
	fs := flags(new(options), new(texts))
	var taken []string
	for m, names := range flagsOf {
		taken = append(taken, names...)
		for _, name := range names {
			if fs.Lookup(name) == nil {
				t.Errorf("%s takes -%s, which is not a flag", m, name)
			}
		}
	}
	fs.VisitAll(func(f *flag.Flag) {
		if !slices.Contains(taken, f.Name) {
			t.Errorf("no mode takes -%s", f.Name)
		}
	})
}

func TestHelpAndList(t *testing.T) {
	if _, errs := runs(t, lab.Subjects(), exitExpected, "-h"); !strings.Contains(errs, "Exit code") {
		t.Error(errs)
	} else if strings.Contains(errs, " string\n") {
		t.Errorf("a flag does not say what it takes:\n%s", errs)
	}
	if out, _ := runs(t, lab.Subjects(), exitExpected, "-list"); !strings.Contains(out, "retry-storm") || !strings.Contains(out, "yours") {
		t.Error(out)
	}
}

func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := program{subjects: lab.Subjects(), scenarios: anomalies.All(), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	if code := p.run(ctx, nil); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
}
