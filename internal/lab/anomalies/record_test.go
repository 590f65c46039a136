package anomalies

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
	"oversell/internal/lab/show"
	"oversell/internal/locks"
	"oversell/internal/page/texts"
)

// table is a table whose report on the embedded backends is made once for all tests, because a run
// takes seconds.
type table struct {
	name string
	cfg  lab.Config
	once func() (lab.Report, error)
}

var (
	ofLocks  = newTable("locks", Locks())
	ofHolds  = newTable("holds", Holds())
	ofBehind = newTable("behind", Behind())
)

func newTable(name string, t lab.Table) table {
	cfg := lab.Config{Redis: lab.Embedded, Subjects: t.Subjects, Scenarios: t.Scenarios}
	run := func() (lab.Report, error) { return lab.Run(context.Background(), cfg, nil) }
	return table{name, cfg, sync.OnceValues(run)}
}

// report returns the table's report. With -short or the race detector it skips the test, which would
// take too long.
func (of table) report(t *testing.T) lab.Report {
	t.Helper()
	if testing.Short() {
		t.Skip("runs a whole table: run it without -short")
	}
	r, err := of.once()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eachTable runs f for each table.
func eachTable(t *testing.T, f func(t *testing.T, cfg lab.Config, r lab.Report)) {
	t.Helper()
	for _, of := range []table{ofLocks, ofHolds, ofBehind} {
		t.Run(of.name, func(t *testing.T) { f(t, of.cfg, of.report(t)) })
	}
}

// All outcomes in the tables are as recorded.
func TestEverythingIsAsOnRecord(t *testing.T) { eachTable(t, compare) }

// Real servers give the recorded outcomes. To save minutes of real time, only one lock of each family is
// tried on all anomalies: one that polls, one that queues up in Redis, and one with its own client. The
// other stages are tried only where the server's clock matters: on the expiry and the renewal of a lock.
// The cells mostly wait, so the locks are tried concurrently.
func TestRealServersAreAsOnRecord(t *testing.T) {
	backendtest.System(t)
	whole := []string{"v6_watchdog", "v9_cohort", "rueidislock"}
	for _, name := range append(locks.Stages(), "rueidislock") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := lab.Config{Redis: backendtest.Redis(t, "local"), Subjects: []lab.Subject{subject(t, name)},
				Scenarios: Locks().Scenarios}
			if !slices.Contains(whole, name) {
				cfg.Scenarios = called(t, "lost-update", "orphan-after-crash", "long-work")
			}
			compare(t, cfg, run(t, cfg))
		})
	}
	for _, of := range []table{ofHolds, ofBehind} {
		t.Run(of.name, func(t *testing.T) {
			cfg := of.cfg
			cfg.Redis, cfg.Database = backendtest.Redis(t, "local"), backendtest.Database(t, "local")
			compare(t, cfg, run(t, cfg))
		})
	}
}

// On MySQL or MariaDB, a naive claim from a pool of units breaks, and sql_units does not. On SQLite
// neither can be tried.
func TestPoolsAreAsOnRecord(t *testing.T) {
	for spec, want := range map[string]int{lab.Embedded: 0, "local": 1} {
		t.Run(spec, func(t *testing.T) {
			cfg := lab.Config{Redis: lab.Embedded, Subjects: Holds().Others, Scenarios: Holds().Scenarios}
			if spec != lab.Embedded {
				cfg.Redis, cfg.Database = backendtest.Redis(t, spec), backendtest.Database(t, spec)
			}
			r := run(t, cfg)
			compare(t, cfg, r)
			broken := 0
			for _, c := range r.Cells {
				if c.Outcome == lab.Breaks {
					broken++
				}
			}
			if broken != want {
				t.Errorf("%d cells break, want %d", broken, want)
			}
		})
	}
}

// Five real servers give the recorded outcomes, except in anomalies that set clocks.
func TestRealNodesAreAsOnRecord(t *testing.T) {
	t.Parallel()
	cfg := lab.Config{Subjects: []lab.Subject{subject(t, "redlock")}, Redis: backendtest.Redis(t, "local")}
	for range 5 {
		cfg.Nodes = append(cfg.Nodes, backendtest.Redis(t, "local"))
	}
	cfg.Scenarios = []lab.Scenario{cutOff, failover, restartForgets, foreignDelete, clockMajority}
	compare(t, cfg, run(t, cfg))
}

func run(t *testing.T, cfg lab.Config) lab.Report {
	t.Helper()
	r, err := lab.Run(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// isUndecided reports whether a cell was not decided because the machine was too busy.
func isUndecided(c lab.Cell) bool { return strings.HasPrefix(c.Note, "this machine was too busy") }

// compare compares outcomes with the record. It ignores a cell during which the machine stalled.
func compare(t *testing.T, cfg lab.Config, r lab.Report) {
	t.Helper()
	undecided := 0
	for _, c := range r.Cells {
		switch {
		case isUndecided(c):
			undecided++
		case c.Note == "" || c.Expected == lab.NoRecord:
			t.Errorf("%s on %s: %q is on record, and it was decided by %q", c.Anomaly, c.Strategy, c.Expected, c.Note)
		case c.AsExpected():
		case cfg.Redis != lab.Embedded && asOnRecordAgain(t, cfg, c):
			t.Logf("%s on %s: %s, and as on record when run again: %s", c.Anomaly, c.Strategy, c.Outcome, c.Note)
		default:
			t.Errorf("%s on %s: %s, want %s: %s", c.Anomaly, c.Strategy, c.Outcome, c.Expected, c.Note)
		}
	}
	t.Logf("%d of %d cells are decided", len(r.Cells)-undecided, len(r.Cells))
	if want := len(cfg.Subjects) * len(cfg.Scenarios); len(r.Cells) != want || want == 0 || undecided > want*9/10 {
		t.Errorf("%d cells, %d of them undecided; want %d decided cells", len(r.Cells), undecided, want)
	}
}

// asOnRecordAgain runs one cell again, and reports whether its outcome is as recorded. In real time the
// lab does not notice if a server stalls, and rueidislock undoes each attempt that Redis answers late.
func asOnRecordAgain(t *testing.T, cfg lab.Config, c lab.Cell) bool {
	t.Helper()
	all := lab.Table{Scenarios: cfg.Scenarios, Subjects: cfg.Subjects}
	one, err := lab.Pick([]lab.Table{all}, []string{c.Anomaly}, []string{c.Strategy})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Scenarios, cfg.Subjects = one[0].Scenarios, one[0].Subjects
	for range 2 {
		if !run(t, cfg).AsExpected() {
			return false
		}
	}
	return true
}

// In virtual time, two runs of a table about sales give the same report, word for word, with all
// commands. This test runs the table with the most concurrent processes. For locks only the outcomes are
// the same, because lock libraries have their own timers.
func TestRunsAreTheSame(t *testing.T) {
	first := stories(ofBehind.report(t))
	for i, now := range stories(run(t, ofBehind.cfg)) {
		if now != first[i] {
			t.Fatalf("two runs differ:\n%s\nand\n%s", first[i], now)
		}
	}
}

// All texts in the cells have a translation, and the notes with all sentences among their arguments: only
// errors, which are in quotation marks, stay in English.
func TestCellsAreToldInChinese(t *testing.T) {
	// reference matches references to issues, which contain no words to translate.
	reference, quote := regexp.MustCompile(`^(\S+|\S+#\d+(; .*)?|.* PR #\d+(; .*)?)$`), regexp.MustCompile(`“[^”]*”`)
	han, english := regexp.MustCompile(`\p{Han}`), regexp.MustCompile(`[a-z]{2,} [a-z]{2,} [a-z]{2,}`)
	eachTable(t, func(t *testing.T, cfg lab.Config, r lab.Report) {
		chinese, err := texts.In("zh")
		if err != nil {
			t.Fatal(err)
		}
		texts := 0
		check := func(text, told string) {
			if texts++; text == "" || !reference.MatchString(text) && !han.MatchString(told) {
				t.Errorf("not translated: %q", text)
			}
		}
		for _, a := range r.Anomalies {
			check(a.Sentence, chinese.Named("anomaly."+a.Name+".sentence", chinese.Say(a.Sentence)))
			check(a.Sequence, chinese.Named("anomaly."+a.Name+".sequence", chinese.Say(a.Sequence)))
			check(a.Source, chinese.Say(a.Source))
		}
		for _, c := range r.Cells {
			note := c.Message.Translate(chinese.Say)
			if check(c.Note, note); english.MatchString(quote.ReplaceAllString(note, "")) {
				t.Errorf("%q is told as %q", c.Note, note)
			}
			for _, e := range c.Trace {
				if e.Kind != lab.Command {
					check(e.Text, e.Message.Translate(chinese.Say))
				}
			}
		}
		if texts < 200 {
			t.Fatalf("%d texts", texts)
		}
	})
}

// stories returns the story of each cell.
func stories(r lab.Report) (all []string) {
	for _, c := range r.Cells {
		story := fmt.Sprintf("%s on %s: %s: %s", c.Anomaly, c.Strategy, c.Outcome, c.Note)
		for _, e := range c.Trace {
			story += fmt.Sprintf("\n  %s %s %s → %s", e.Actor, e.Kind, e.Text, e.Reply)
		}
		all = append(all, story)
	}
	return all
}

// Each anomaly has all its texts and at least one claim. Without claims, a lock that does nothing would
// pass.
func TestAnomaliesAreTold(t *testing.T) {
	kebab := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := make(map[string]bool)
	for _, of := range []table{ofLocks, ofHolds, ofBehind} {
		for _, s := range of.cfg.Scenarios {
			if !kebab.MatchString(s.Name) || seen[s.Name] {
				t.Errorf("%q is no name, or one that is taken", s.Name)
			}
			seen[s.Name] = true
			told := s.Sentence != "" && s.Sequence != "" && s.Source != "" && slices.Contains(lab.Losses(), s.Loss)
			if !told || s.Run == nil || len(s.Requires) == 0 {
				t.Errorf("%s lacks a text, a loss, a run or a claim", s.Name)
			}
		}
	}
}

// A cell's trace marks a break if and only if the cell breaks, and its events are in chronological order.
// The declared loss of an anomaly is the worst loss in the notes of its cells.
func TestBrokenCellsMarkTheMoment(t *testing.T) {
	eachTable(t, func(t *testing.T, cfg lab.Config, r lab.Report) {
		worst := make(map[string]lab.Loss) // by anomaly
		for _, c := range r.Cells {
			broken := slices.ContainsFunc(c.Trace, func(e lab.Event) bool { return e.Kind == lab.Break })
			if broken != (c.Outcome == lab.Breaks) {
				t.Errorf("%s on %s %s, and its trace has a break: %v", c.Anomaly, c.Strategy, c.Outcome, broken)
			}
			if !slices.IsSortedFunc(c.Trace, func(a, b lab.Event) int { return int(a.At*1000) - int(b.At*1000) }) {
				t.Errorf("%s on %s: the trace is out of order", c.Anomaly, c.Strategy)
			}
			if loss := shownLoss(c); loss == lab.SellsTwice || loss != "" && worst[c.Anomaly] == "" {
				worst[c.Anomaly] = loss
			}
		}
		for _, a := range r.Anomalies {
			if loss := worst[a.Name]; loss != "" && a.Loss != loss {
				t.Errorf("%s: the loss is %s, and a cell shows %s", a.Name, a.Loss, loss)
			}
		}
		if len(worst) < 4 {
			t.Errorf("of %d anomalies a cell shows what is lost", len(worst))
		}
	})
}

var (
	tooMany  = regexp.MustCompile(`^(\d+) (?:of|units are sold, and the stock is down by) (\d+)(?: units were sold)?`)
	atOnce   = regexp.MustCompile(`took the lock while \S+ held it`)
	unserved = regexp.MustCompile(`does not get the lock within three times the ttl: |are neither sold nor on sale`)
)

// shownLoss returns the loss that the note of a broken cell shows, or "".
func shownLoss(c lab.Cell) lab.Loss {
	if c.Outcome != lab.Breaks {
		return ""
	}
	var sold, had int
	if m := tooMany.FindStringSubmatch(c.Note); m != nil {
		_, _ = fmt.Sscan(m[1]+" "+m[2], &sold, &had) // both are digits
	}
	switch {
	case atOnce.MatchString(c.Note), sold > had:
		return lab.SellsTwice
	case unserved.MatchString(c.Note):
		return lab.Stuck
	}
	return ""
}

func TestRunIsInterrupted(t *testing.T) {
	for _, redis := range []string{lab.Embedded, backendtest.Redis(t, "embedded")} {
		ctx, cancel := context.WithCancel(t.Context())
		done := 0
		cfg := lab.Config{Subjects: lab.Subjects()[:3], Scenarios: All(), Redis: redis}
		_, err := lab.Run(ctx, cfg, func(lab.Cell) { done++; cancel() })
		if !errors.Is(err, context.Canceled) || done > 100 {
			t.Errorf("on %s: %v after %d cells", redis, err, done)
		}
	}
}

// Only the lock of v1_setnx has no expiry, and v2_ttl differs only in having one. Therefore, if v1_setnx
// holds only because its lock never expires, v2_ttl breaks. If v1_setnx holds for another reason, v2_ttl
// holds too.
func TestOnlyEndlessIsWhatAnExpiryWouldBreak(t *testing.T) {
	r, endless := ofLocks.report(t), 0
	for _, c := range r.Cells {
		only := show.OnlyEndless(r.Manifest, c)
		if only {
			endless++
		}
		breaksV2 := lab.Recorded()["v2_ttl"][c.Anomaly] == lab.Breaks
		if want := c.Strategy == "v1_setnx" && c.Outcome == lab.Holds && breaksV2; only != want {
			t.Errorf("%s on %s holds only because its lock never expires: %v, want %v", c.Anomaly, c.Strategy, only,
				want)
		}
	}
	if endless < 10 {
		t.Errorf("%d cells hold only because a lock never expires, want 10 or more", endless)
	}
}
