package main

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/report/pagetest"
	"oversell/internal/guard"
	"oversell/internal/lab"
	"oversell/internal/site"
)

// If the environment variable asProgram is set, the test binary runs the program.
const asProgram = "LAB_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(backendtest.Main(m, pagetest.Close))
}

// runs runs the program, checks the exit code, and returns the output.
func runs(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	return perform(t, tables(), want, args...)
}

// perform is like runs, but runs the program with these tables.
func perform(t *testing.T, tables []lab.Table, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := program{tables: tables, stdout: &out, stderr: &errs}
	if code := p.run(t.Context(), args); code != want {
		t.Errorf("%v: exit code %d, want %d\n%s%s", args, code, want, &out, &errs)
	}
	return out.String(), errs.String()
}

// try runs the program with these tables, and returns its report.
func try(t *testing.T, tables []lab.Table, want int, args ...string) lab.Report {
	t.Helper()
	out, _ := perform(t, tables, want, append(args, "-json", "-")...)
	var r lab.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// withLock returns the tables with c as the only lock that is run by default.
func withLock(c lab.Subject) []lab.Table {
	all := tables()
	all[0].Subjects = []lab.Subject{c}
	return all
}

// Each way of calling the program prints the expected output, in both languages. Names and commands
// are not translated.
func TestWhatIsShown(t *testing.T) {
	page := filepath.Join(t.TempDir(), "lab.html")
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"-run check-then-delete,foreign-delete -strategy v3,v4",
			[]string{"check-then-delete", "foreign-delete", "miniredis"}},
		{"-run check-then-delete -strategy v3_uuid", []string{"GET lock", "DEL lock", "BREAKS"}},
		{"-run late-payment -strategy h2_status",
			[]string{"INSERT INTO orders", "hold-A has expired", "2 of 1 units were sold", "woocommerce", "SQLite"}},
		{"-run repair-with-units-in-flight -strategy overwrite",
			[]string{"INSERT INTO `orders`", "repairs the stock", "2 of 1 units were sold", "woocommerce_fusion"}},
		{"-run foreign-delete,two-sweepers -strategy v2_ttl,h2_status,h3_claim",
			[]string{"foreign-delete", "A sale by holds", "two-sweepers", "h3 = h3_claim"}},
		{"-list", []string{"retry-storm", "yours"}},
		{"-run check-then-delete -strategy v3,v4 -lang zh", []string{"先检查、后删除 check-then-delete", "一件卖两次",
			"全部与记录一致", "go run ./cmd/lab -run NAME -strategies NAME -lang zh\n"}},
		{"-run check-then-delete -strategy v3_uuid -lang zh",
			[]string{"GET lock → token-A1", "在路上被扣住：DEL lock", "━━ 失守 ━━ C 有锁，B 也有",
				"go run ./cmd/lab -run check-then-delete -strategies v3_uuid -lang zh\n"}},
		{"-run late-payment,foreign-delete -strategy h2_status,v2 -lang zh -html " + page,
			[]string{"付款迟到 late-payment"}},
		{"-list -lang zh", []string{"check-then-delete", "先检查、后删除：", "late-payment", "付款迟到："}},
		{"-replay none/A.B.A.B -goal oversell -lang zh", []string{"卖出一件", "达到：oversell：卖出的比库存多"}},
		{"-search none,v1 -lang zh", []string{"2 位买家，1 件库存；", "冻结 1 次，杀死 1 次，丢失回复 1 次", "不可能：",
			" 步：A.", "go run ./cmd/lab -replay none/A.B.A.B -goal oversell -lang zh\n", "状态数", "合计"}},
	} {
		out, _ := runs(t, exitExpected, strings.Fields(tt.args)...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", tt.args, want, out)
			}
		}
		if !strings.Contains(tt.args, "zh") && strings.Contains(out, "锁") {
			t.Errorf("%s: it is not in English:\n%s", tt.args, out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"故障实验室", "付款迟到", `href="#foreign-delete/v2_ttl"`, `href="#late-payment/h2_status"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q in the file", want)
		}
	}
}

func TestYourLockIsGraded(t *testing.T) {
	out, _ := runs(t, exitExpected, "-strategy", "yours")
	kept := regexp.MustCompile(`v1_setnx +keeps (\d+) of (\d+)\n`).FindStringSubmatch(out)
	if kept == nil || kept[1] != kept[2] {
		t.Errorf("it does not keep all that v1_setnx keeps:\n%s", out)
	}
	for _, want := range []string{
		"The first promise that it breaks is orphan-after-crash, which v2_ttl is the first to keep",
		"go run ./cmd/lab -run orphan-after-crash -strategies yours",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// The report is that of the first table with a named cell. The reports of the other tables are in
// its fields.
func TestTablesAreBesideEachOther(t *testing.T) {
	r := try(t, tables(), exitExpected, "-run", "foreign-delete,two-sweepers,repair-with-units-in-flight",
		"-strategy", "v2_ttl,h2_status,h3_claim,overwrite")
	if len(r.Cells) != 1 || r.Cells[0].Strategy != "v2_ttl" || len(r.Holds.Cells) != 2 || len(r.Behind.Cells) != 1 {
		t.Errorf("%+v", r)
	}
	r = try(t, tables(), exitExpected, "-run", "two-sweepers,repair-with-units-in-flight",
		"-strategy", "h2_status,overwrite,lua_stream")
	if len(r.Cells) != 1 || r.Cells[0].Strategy != "h2_status" || r.Holds != nil || len(r.Behind.Cells) != 2 {
		t.Errorf("%+v", r)
	}
	r = lab.Report{Behind: &lab.Report{Cells: []lab.Cell{{Outcome: lab.Holds, Expected: lab.Breaks}}}}
	if r.AsExpected() {
		t.Error("a report is as expected, and its third table is not")
	}
}

// The record contains all cells, in the format in which the lab writes them, so a diff shows only
// real changes.
func TestRecordIsWhole(t *testing.T) {
	file := filepath.Join("..", "..", "internal", "lab", "record.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := lab.Recorded().With(tables(), nil).WriteJSON(&written); err != nil || written.String() != string(text) {
		t.Errorf("%v: it has an entry that nothing is about, or another form: go run ./cmd/lab -record %s", err, file)
	}
	for _, table := range tables() {
		for _, c := range table.All() {
			for _, s := range table.Scenarios {
				if c.Name != lab.Yours().Name && s.Expected(c.Name) == lab.NoRecord {
					t.Errorf("%s on %s is not on record: go run ./cmd/lab -strategies %[2]s -record %s", s.Name, c.Name,
						file)
				}
			}
		}
	}
}

// A new strategy needs an entry in the record, which -record writes. Until then, the lab reports
// that the entry is missing.
func TestNewStrategyIsRecorded(t *testing.T) {
	c := lab.Subjects()[4]
	c.Name = "mine"
	mine := withLock(c)
	args := []string{"-run", "foreign-delete,lost-update", "-strategy", "mine"}
	out, errs := perform(t, mine, exitUnexpected, args...)
	if !strings.Contains(out, "Nothing is on record for these cells.") ||
		!strings.Contains(errs, "add -record internal/lab/record.json") {
		t.Errorf("%s\n%s", out, errs)
	}
	file := filepath.Join(t.TempDir(), "record.json")
	mine[0].Subjects = append(lab.Subjects(), mine[0].Subjects...)
	perform(t, mine, exitExpected, append(args, "-record", file)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var old bytes.Buffer
	if err := lab.Recorded().WriteJSON(&old); err != nil {
		t.Fatal(err)
	}
	const entry = " \"mine\": {\n  \"foreign-delete\": \"breaks\",\n  \"lost-update\": \"holds\"\n },\n"
	if strings.Replace(string(text), entry, "", 1) != old.String() {
		t.Errorf("the record is not the old one and %s", entry)
	}
}

// Locks on other servers are run only if they are named. They are run in real time, even if the
// other cells of the run are in virtual time.
func TestLocksOnOtherServers(t *testing.T) {
	backendtest.System(t)
	r := try(t, tables(), exitExpected, "-strategies", "redlock,etcd", "-run", "foreign-unlock,clock-jump-majority")
	said := strings.Join(r.Manifest.Servers, "; ")
	if len(r.Cells) != 4 || !r.Manifest.Virtual || !strings.Contains(said, "etcd in real time, with leases of 2s") {
		t.Errorf("virtual %v, %s", r.Manifest.Virtual, said)
	}
	alone := try(t, tables(), exitExpected, "-strategies", "etcd", "-run", "clock-jump-majority").Manifest
	if said := strings.Join(alone.Servers, "; "); alone.Virtual || alone.TTL != 2*time.Second ||
		strings.Contains(said, "leases of") {
		t.Errorf("of etcd alone it says twice which lease it has: %v, %v", alone.TTL, alone.Servers)
	}
}

// A Redis that the user names has no nodes for Redlock, so redlock is left out unless -redlock
// names the nodes.
func TestNodesAreAskedFor(t *testing.T) {
	for args, want := range map[string]string{
		"":                               "embedded",
		"-redis local":                   "local",
		"-redis local -redlock embedded": "embedded",
		"-redis redis://a:1":             "",
		"-redis redis://a:1 -redlock a:2,a:3,a:4":    "a:2,a:3,a:4",
		"-redis redis://a:1 -strategy etcd":          "",
		"-redis redis://a:1 -strategies v6_watchdog": "",
	} {
		o, err := program{tables: tables()}.parse(strings.Fields(args))
		if err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		has := slices.ContainsFunc(o.tables[0].Subjects, func(c lab.Subject) bool { return c.Name == "redlock" })
		named := strings.Contains(args, "strateg")
		if o.servers.Redlock != want || has != (want != "" && !named) {
			t.Errorf("%s: nodes %q, want %q; redlock has a subject: %v", args, o.servers.Redlock, want, has)
		}
	}
}

// If a file cannot be written, the program fails before the run, not after it.
func TestFilesAreMadeBeforeTheRun(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "no", "such")
	for _, args := range []string{"-html", "-json", "-record", "-search none -record", "-search none -readme"} {
		ran := false
		none := lab.Subjects()[0]
		none.Guard = func(*lab.Process) guard.Guard {
			ran = true
			return guard.None{}
		}
		if !strings.Contains(args, "-search") {
			args = "-run lost-update -strategy none " + args
		}
		out, errs := perform(t, withLock(none), exitFailed, append(strings.Fields(args), nowhere)...)
		if !strings.Contains(errs, nowhere) || ran || out != "" {
			t.Errorf("%s: it says %q and %q, and it ran: %v", args, errs, out, ran)
		}
	}
}

// An interrupted run leaves the old report unchanged, and leaves no temporary file behind.
func TestInterruptedRunLeavesTheOldReport(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "lab.html")
	if err := os.WriteFile(page, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := program{tables: tables(), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
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

func TestTableInAFile(t *testing.T) {
	few := tables()
	few[0].Subjects, few[1].Subjects, few[2].Subjects = few[0].Subjects[4:6], few[1].Subjects[:1], few[2].Subjects[:1]
	few[1].Scenarios, few[2].Scenarios = few[1].Scenarios[:1], few[2].Scenarios[:1]
	few[0].Scenarios = slices.DeleteFunc(few[0].Scenarios, func(s lab.Scenario) bool {
		return !strings.HasPrefix(s.Name, "check-") && !strings.HasPrefix(s.Name, "foreign-")
	})
	file := filepath.Join(t.TempDir(), "README.md")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("no marks")
	perform(t, few, exitFailed, "-readme", file)
	const before, after = "# Title\n", "\n## More\n"
	write(before + lab.TableBegin + "\nold\n" + lab.TableEnd + after)
	if _, errs := perform(t, few, exitUnexpected, "-readme", file, "-check"); !strings.Contains(errs, "stale") {
		t.Errorf("it says %q", errs)
	}
	perform(t, few, exitExpected, "-readme", file)
	perform(t, few, exitExpected, "-readme", file, "-check")
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
		args string
		want string
	}{
		{"-run nope", "lost-update"},
		{"-strategy zebra", "yours"},
		{"-strategies v99", "did you mean v9_cohort?"},
		{"-strategys none", "did you mean -strategy?"},
		{"-ttl 5", "write 5s"},
		{"-redis localhost:1", "unreachable"},
		{"-run late-payment -strategy v3_uuid", "none of these anomalies is tried on any of these strategies"},
		{"now", "-h"},
		{"-nope", "-h"},
		{"-ttl 1ms", "300ms"},
		{"-ttl 0", "300ms"},
		{"-ttl 1m", "at most 4s"},
		{"-run ,", "names nothing"},
		{"-redis redis://127.0.0.1:1,127.0.0.1:2", "one server"},
		{"-redis redis+sentinel://127.0.0.1:1/name", "one server"},
		{"-redis rediss+sentinel://127.0.0.1:1/name", "one server"},
		{"-redis local:cluster", "one server"},
		{"-check", "-readme"},
		{"-readme x -run lost-update", "whole table"},
		{"-readme no/such/file", "no such file"},
		{"-redis memcached", "memcached"},
		{"-redis redis://127.0.0.1:1 -strategy redlock", "-redlock"},
		{"-redis redis://127.0.0.1:1 -readme x", "-redlock"},
		{"-strategy redlock -redlock 127.0.0.1:1,127.0.0.1:2", "must name at least 3"},
		{"-strategy redlock -redlock 127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", "unreachable"},
		{"-strategies etcd -etcd memcached", "-etcd"},
		{"-strategies zookeeper -zookeeper memcached", "-zookeeper"},
		{"-goal oversell", "-goal is not a flag of the table, which takes -run, "},
		{"-list -run lost-update", "-run is not a flag of -list, which takes -list, -lang"},
		{"-strategy none -strategies local", "are the same flag"},
		{"-json x -html ./x", "-json and -html are the same file"},
		{"-search none -record x -readme x", "-record and -readme are the same file"},
		{"-json - -html -", "-html must be a file"},
		{"-strategies sql_version", "does not try strategy \"sql_version\": it works in the database"},
		{"-strategies yours -record x", "yours has no record"},
		{"-redis redis://127.0.0.1:1", "unreachable"},
		{"-lang fr", `-lang: "fr" is no language; allowed: en, zh`},
		{"-replay v4_lua/A.A -goal oversell", "does not reach it"},
		{"-replay v4_lua/A.A -goal stuck", "all are served"},
		{"-replay none/A.B -goal overlap", "overlap is not applicable to none: there is no lock"},
		{"-replay v4_lua/D", "move 1 is \"D\""},
		{"-replay v4_lua", "a strategy, a slash and moves"},
		{"-search all,redlock", "does not know \"redlock\""},
		{"-search none -goal gold", "unknown goal \"gold\" (allowed: oversell, "},
		{"-search none -buyers 4", "must be 2 or 3"},
		{"-search none -run starvation", "-run is not a flag of -search, which takes -search, -goal"},
		{"-search none -replay none/A", "-replay is not a flag of -search"},
		{"-replay none/A -record x", "-record is not a flag of -replay"},
		{"-search none -check", "-check needs -readme"},
		{"-site .", site.ErrTaken.Error()},
		{"-site . -ttl 1s", "-ttl is not a flag of -site"},
	} {
		if _, errs := runs(t, exitFailed, strings.Fields(tt.args)...); !strings.Contains(errs, tt.want) {
			t.Errorf("%s: %q does not say %q", tt.args, errs, tt.want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("OVERSELL_REDIS", "redis://127.0.0.1:1")
	t.Setenv("OVERSELL_TTL", "1ms") // the lab does not read this variable
	runs(t, exitFailed, "-run", "lost-update")
	runs(t, exitExpected, "-run", "lost-update", "-redis", "embedded")
}

func TestHelp(t *testing.T) {
	if err := helpText.Check(flags(new(options)), slices.Collect(maps.Values(flagsOf))...); err != nil {
		t.Error(err)
	}
}

// The tables contain exactly the described anomalies, in the same order.
func TestTablesHaveEachDescribedAnomaly(t *testing.T) {
	file, err := os.ReadFile("../../internal/lab/anomalies.json")
	if err != nil {
		t.Fatal(err)
	}
	var described, tried []lab.Anomaly
	if err := json.Unmarshal(file, &described); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables() {
		for _, s := range table.Scenarios {
			tried = append(tried, s.Anomaly)
		}
	}
	if !slices.Equal(described, tried) {
		t.Errorf("%d anomalies are described, and %d are tried, or their order differs", len(described), len(tried))
	}
}
