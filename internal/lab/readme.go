package lab

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"oversell/internal/catalog"
)

// The marks in a Markdown file between which the table of strategies belongs.
const (
	TableBegin = "<!-- strategies:begin -->"
	TableEnd   = "<!-- strategies:end -->"
)

// ErrMarks is returned for a file that has no place for the table.
var ErrMarks = errors.New("it has to have the lines " + TableBegin + " and " + TableEnd + ", in this order")

// ReplaceTable returns a Markdown text with the table of strategies replaced
// by that of a report, which has to be of everything.
func ReplaceTable(text []byte, r Report) ([]byte, error) {
	head, rest, ok := bytes.Cut(text, []byte(TableBegin+"\n"))
	_, tail, ok2 := bytes.Cut(rest, []byte(TableEnd))
	if !ok || !ok2 {
		return nil, ErrMarks
	}
	return fmt.Appendf(nil, "%s%s\n%s%s%s", head, TableBegin, Table(r), TableEnd, tail), nil
}

// Table is the table of strategies in Markdown: what each adds, and what the
// lab has seen it break.
func Table(r Report) string {
	common := brokenByAll(r)
	var b strings.Builder
	b.WriteString("| strategy | what it adds | what it still breaks | shown by |\n|---|---|---|---|\n")
	list := catalog.Strategies()
	for _, name := range r.Manifest.Strategies {
		adds, test := "", "the lab"
		// Of the locks of others the lab has its own settings, and texts.
		if s, err := list.Find(name); err == nil && !s.Extra {
			adds, test = s.Adds, "`"+s.Test+"`"
		} else if found, err := FindSubjects(Subjects(), []string{name}); err == nil {
			adds = found[0].About
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, adds, quoted(brokenBy(r, name, common)), test)
	}
	fmt.Fprintf(&b, "\nBroken under each of the locks in Redis, and left out above: %s.\n", quoted(common))
	return b.String()
}

// brokenBy lists the anomalies that a strategy breaks under, less those given.
func brokenBy(r Report, strategy string, less []string) []string {
	skip := make(map[string]bool)
	for _, name := range less {
		skip[name] = true
	}
	var names []string
	for _, c := range r.Cells {
		if c.Strategy == strategy && c.Outcome == Breaks && !skip[c.Anomaly] {
			names = append(names, c.Anomaly)
		}
	}
	return names
}

// brokenByAll lists the anomalies that every lock in Redis breaks under.
func brokenByAll(r Report) []string {
	inRedis := make(map[string]bool)
	for _, c := range Subjects() {
		inRedis[c.Name] = c.InRedis()
	}
	kept := make(map[string]bool)
	for _, c := range r.Cells {
		if inRedis[c.Strategy] && c.Outcome != Breaks {
			kept[c.Anomaly] = true
		}
	}
	var names []string
	for _, a := range r.Anomalies {
		if !kept[a.Name] {
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
