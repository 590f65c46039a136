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

// The marks between which the tables of holds, and of repairs and consumers, belong. A file need
// not have them.
const (
	HoldsBegin  = "<!-- holds:begin -->"
	HoldsEnd    = "<!-- holds:end -->"
	BehindBegin = "<!-- behind:begin -->"
	BehindEnd   = "<!-- behind:end -->"
)

// ErrMarks is returned for a file that has no place for the table.
var ErrMarks = errors.New("it has to have the lines " + TableBegin + " and " + TableEnd + ", in this order")

// ReplaceTable returns a Markdown text with the table of strategies replaced
// by that of a report, which has to be of everything, and the same for the tables beside it.
func ReplaceTable(text []byte, r Report) ([]byte, error) {
	text, ok := ReplaceBetween(text, TableBegin, TableEnd, Table(r))
	if !ok {
		return nil, ErrMarks
	}
	for _, beside := range []struct {
		of         *Report
		begin, end string
	}{{r.Holds, HoldsBegin, HoldsEnd}, {r.Behind, BehindBegin, BehindEnd}} {
		if beside.of == nil {
			continue
		}
		if with, ok := ReplaceBetween(text, beside.begin, beside.end, OutcomeTable(*beside.of)); ok {
			text = with
		}
	}
	return text, nil
}

// ReplaceBetween replaces what is between two lines. It returns false if they are not there.
func ReplaceBetween(text []byte, begin, end, table string) ([]byte, bool) {
	head, rest, ok := bytes.Cut(text, []byte(begin+"\n"))
	_, tail, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return text, false
	}
	return fmt.Appendf(nil, "%s%s\n%s%s%s", head, begin, table, end, tail), true
}

// OutcomeTable is a report in Markdown: each anomaly, and how each subject came out.
func OutcomeTable(r Report) string {
	outcomes := make(map[[2]string]Outcome)
	for _, c := range r.Cells {
		outcomes[[2]string{c.Anomaly, c.Strategy}] = c.Outcome
	}
	var b strings.Builder
	b.WriteString("| anomaly |")
	for _, name := range r.Manifest.Strategies {
		fmt.Fprintf(&b, " `%s` |", name)
	}
	b.WriteString("\n|---" + strings.Repeat("|---", len(r.Manifest.Strategies)) + "|\n")
	for _, a := range r.Anomalies {
		fmt.Fprintf(&b, "| `%s` |", a.Name)
		for _, name := range r.Manifest.Strategies {
			text := string(outcomes[[2]string{a.Name, name}])
			if text == string(Breaks) {
				text = "**" + text + "**"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	return b.String()
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
