package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
)

// view is the page without its plots.
type view struct {
	Wrong      bool
	Conclusion []string
	Tables     []viewTable // one for each workload
	Chaos      []chaosView // of each row under chaos
	Items      []itemsView // of each row with several
	Settings   []setting
	Conditions []heading
	File       string // name of the download
}

// viewTable is the table of the rows of one workload.
type viewTable struct {
	Load   string
	Header []string
	Titles []string
	Lines  []viewLine
}

// viewLine is a line of the table.
type viewLine struct {
	Condition string // heads the lines below; "" for a row
	Name      string // of a row; "" for the intervals below it
	Cells     []string
	Verdict   string
	Class     string // of the verdict
}

// chaosView is the faults of a row.
type chaosView struct {
	Name, Line string
	Wrong      bool
	Heads      []report.Head
	Lines      [][]string
}

// itemsView is the worst items of a row, and those with the most buyers.
type itemsView struct {
	Name, Line string
	Wrong      bool
	Heads      []report.Head
	Lines      [][]string
}

type setting struct{ Name, Value string }

// heading is that of a condition's plots.
type heading struct{ Name, Title string }

func newView(r report.Report, s report.Style) view {
	v := view{
		Wrong: !r.AsExpected(), Conclusion: strings.Split(strings.TrimSpace(r.Conclusion(s)), "\n"),
		Settings: settings(r.Manifest, s), File: "oversell-" + r.Manifest.ID + ".json",
	}
	for i, part := range r.Parts() {
		if i == 0 || len(part.Rows) > 0 {
			v.Tables = append(v.Tables, newTable(part, s))
		}
	}
	for _, row := range r.Rows {
		if row.Chaos != nil {
			heads, lines := row.Faults(s)
			v.Chaos = append(v.Chaos, chaosView{
				Name: s.Sayf("%s, seed %d", row.Strategy, row.Chaos.Seed), Line: row.ChaosLine(s), Wrong: !row.Expected,
				Heads: heads, Lines: lines,
			})
		}
	}
	for _, row := range r.Rows {
		if row.Items != nil {
			heads, lines := row.Items.Lists(s)
			v.Items = append(v.Items, itemsView{Name: s.Sayf("%s under %s", row.Strategy, s.Condition(row.Condition)), Line: row.Line(s), Wrong: !row.Expected, Heads: heads, Lines: lines})
		}
	}
	for _, p := range newPlots(r, s).Conditions {
		v.Conditions = append(v.Conditions, heading{p.Name, p.Title})
	}
	return v
}

// newTable returns the table of a part of a report.
func newTable(r report.Report, s report.Style) viewTable {
	header, sheet := strings.Split(strings.TrimSpace(r.Header(s)), "\n"), r.Table(s)
	t := viewTable{Load: header[0], Header: header[1:], Titles: sheet.Titles[1 : len(sheet.Titles)-1]}
	for _, l := range sheet.Lines {
		if len(l.Cells) == 1 {
			t.Lines = append(t.Lines, viewLine{Condition: l.Cells[0]})
			continue
		}
		last := len(l.Cells) - 1
		t.Lines = append(t.Lines, viewLine{
			Name: strings.TrimSpace(l.Cells[0]), Cells: l.Cells[1:last], Verdict: l.Cells[last], Class: class(l),
		})
	}
	return t
}

// class is the CSS class of a line's worst verdict.
func class(l report.Line) string {
	class := "good"
	for _, v := range l.Verdicts {
		switch {
		case v == figures.Oversold || v == figures.Stuck:
			class = "bad"
		case v != figures.OK && class == "good":
			class = "fair"
		}
	}
	if l.Wrong {
		class += " wrong"
	}
	return class
}

// settings lists what the report was measured with, and for further workloads what differs.
func settings(m report.Manifest, s report.Style) []setting {
	all := settingsOf(m, s)
	for _, also := range m.Also {
		for _, one := range settingsOf(also, s) {
			if !slices.Contains(all, one) {
				all = append(all, setting{s.Sayf("%s: %s", also.Workload, one.Name), one.Value})
			}
		}
	}
	return all
}

// settingsOf lists the settings of a manifest that have a value.
func settingsOf(m report.Manifest, s report.Style) []setting {
	all := []setting{
		{"bench", m.ID}, {"started", m.Started.UTC().Format(time.RFC3339)}, {"oversell", m.Version},
		{"redis", s.Say(m.Redis)}, {"database", s.Say(m.DB)}, {"Go", m.Go}, {"machine", s.Sayf("%s, %d CPUs", m.OS, m.CPUs)},
		{"flags", strings.Join(m.Flags, " ")}, {"workload", m.Workload}, {"requests", fmt.Sprint(m.Requests)},
	}
	if m.Rate > 0 {
		all = append(all, setting{"rate", s.Sayf("%d a second for %s, %d in flight at most", m.Rate, s.Say(m.Duration), m.InFlight)})
	}
	if m.Items > 0 {
		all = append(all, setting{"items", fmt.Sprintf("%d, %s", m.Items, m.Skew)})
	}
	if m.Rate == 0 && m.InFlight > 0 {
		all = append(all, setting{"connections", fmt.Sprint(m.InFlight)})
	}
	if m.Seed > 0 {
		all = append(all, setting{"seed", fmt.Sprint(m.Seed)})
	}
	all = append(all, []setting{
		{"stock", fmt.Sprint(m.Stock)}, {"shops", fmt.Sprint(m.Instances)}, {"targets", strings.Join(m.Targets, " ")},
		{"ttl", s.Say(m.TTL)}, {"work", s.Say(m.Work)}, {"wait", s.Say(m.Wait)}, {"retry", m.Retry}, {"keys", m.Keys},
		{"second look", s.Say(map[bool]string{true: "true", false: "false"}[m.SecondLook])}, {"runs of each row", fmt.Sprint(m.Repeat)},
	}...)
	var given []setting
	for _, one := range all {
		if one.Value != "" {
			given = append(given, setting{s.Say(one.Name), one.Value})
		}
	}
	return given
}
