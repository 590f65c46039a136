package lab

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/catalog"
	"oversell/internal/present"
)

// The marks in a Markdown file: the table of strategies is written between these lines.
const (
	TableBegin = "<!-- strategies:begin -->"
	TableEnd   = "<!-- strategies:end -->"
)

// errMarks is returned for a file that has no marks.
var errMarks = errors.New("it must have the lines " + TableBegin + " and " + TableEnd +
	", in this order, or those of another table")

// ReplaceTable returns a Markdown text with each marked table replaced by a table of the report.
// The report must cover all given scenarios.
func ReplaceTable(text []byte, r Report, all []Scenario) ([]byte, error) {
	text, strategies := ReplaceBetween(text, TableBegin, TableEnd, strategiesTable(r))
	text, libraries := ReplaceBetween(text, "<!-- libraries:begin -->", "<!-- libraries:end -->",
		librariesTable(r, all))
	if !strategies && !libraries {
		return nil, errMarks
	}
	return text, nil
}

// ReplaceBetween replaces the text between two lines. It returns false if it does not find them.
func ReplaceBetween(text []byte, begin, end, table string) ([]byte, bool) {
	head, rest, ok := bytes.Cut(text, []byte(begin+"\n"))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return text, false
	}
	return fmt.Appendf(nil, "%s%s\n%s%s%s", head, begin, table, end, tail), true
}

func (r Report) outcomes() map[[2]string]Outcome {
	outcomes := make(map[[2]string]Outcome)
	for _, c := range r.Cells {
		outcomes[[2]string{c.Anomaly, c.Strategy}] = c.Outcome
	}
	return outcomes
}

func inTable(o Outcome) string {
	if o == Breaks {
		return "**" + string(o) + "**"
	}
	return string(o)
}

// strategiesTable returns the table of strategies in Markdown: what each strategy adds, and which
// anomalies still break it.
func strategiesTable(r Report) string {
	common := brokenByAll(r)
	t := present.Table[string]{Rows: r.Manifest.Strategies}
	t.Add("strategy", func(name string) string { return "`" + name + "`" })
	t.Add("what it adds", func(name string) string { adds, _ := told(name); return adds })
	t.Add("what it still breaks", func(name string) string { return quoted(brokenBy(r, name, common)) })
	t.Add("shown by", func(name string) string { _, test := told(name); return test })
	return t.Markdown() + fmt.Sprintf("\nBroken under each of the locks in Redis, and left out above: %s.\n",
		quoted(common))
}

// told returns what a strategy adds, and which test shows it. For libraries it uses the lab's own
// text, because the lab has its own settings for them.
func told(strategy string) (adds, test string) {
	if s, err := catalog.Strategies().Find(strategy); err == nil && !s.Extra {
		return s.Adds, "`" + s.Test + "`"
	}
	if found, err := FindSubjects(Subjects(), []string{strategy}); err == nil {
		adds = found[0].About
	}
	return adds, "the lab"
}

func brokenBy(r Report, strategy string, less []string) []string {
	var names []string
	for _, c := range r.Cells {
		if c.Strategy == strategy && c.Outcome == Breaks && !slices.Contains(less, c.Anomaly) {
			names = append(names, c.Anomaly)
		}
	}
	return names
}

// brokenByAll lists the anomalies that break every lock in Redis.
func brokenByAll(r Report) []string {
	inRedis := slices.DeleteFunc(Subjects(), func(c Subject) bool { return !c.InRedis() })
	outcomes := r.outcomes()
	var names []string
	for _, a := range r.Anomalies {
		kept := func(c Subject) bool {
			outcome, ok := outcomes[[2]string{a.Name, c.Name}]
			return ok && outcome != Breaks
		}
		if !slices.ContainsFunc(inRedis, kept) {
			names = append(names, a.Name)
		}
	}
	return names
}

func quoted(names []string) string {
	if len(names) == 0 {
		return "nothing that the lab tries"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// compared returns the names of the library locks, followed by the stages that they are compared
// with. Theirs is the number of library locks.
func compared() (names []string, theirs int) {
	return []string{"redsync", "redsync_extended", "redislock", "redislock_refreshed", "rueidislock", "v4_lua",
		"v6_watchdog", "v8_fenced", "v9_cohort"}, 5
}

func lockSource(name string) string {
	switch library, option, _ := strings.Cut(name, "_"); {
	case strings.HasPrefix(name, "v"):
		return "internal/locks/" + name
	case option != "":
		return "internal/locks/thirdparty/extended.go"
	default:
		return "internal/locks/thirdparty/" + library + ".go"
	}
}

// librariesTable returns a table in Markdown, for a file in docs, that compares library locks with
// the stages. It lists the anomalies that apply to at least one library and whose outcome differs
// between the locks. The names of locks and anomalies link to their code, and each cell links to its
// run on the page of a shop on this machine.
func librariesTable(r Report, all []Scenario) string {
	names, theirs := compared()
	outcomes := r.outcomes()
	of := func(s Scenario, name string) Outcome { return outcomes[[2]string{s.Name, name}] }
	t := present.Table[Scenario]{Rows: slices.DeleteFunc(slices.Clone(all), func(s Scenario) bool {
		alike := !slices.ContainsFunc(names, func(name string) bool { return of(s, name) != of(s, names[0]) })
		return alike || !slices.ContainsFunc(names[:theirs], func(name string) bool { return of(s, name) != NA })
	})}
	t.Add("anomaly", func(s Scenario) string {
		return fmt.Sprintf("[`%s`](../%s)", s.Name, s.source())
	})
	for _, name := range names {
		t.Add(fmt.Sprintf("[`%s`](../%s)", name, lockSource(name)), func(s Scenario) string {
			return fmt.Sprintf("[%s](http://127.0.0.1:8080/#/break/%s/%s)", inTable(of(s, name)), s.Name, name)
		})
	}
	return t.Markdown()
}
