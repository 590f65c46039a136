package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"oversell/internal/present"
)

// viewTable is the table of the rows of one workload, which the page draws.
type viewTable struct {
	Load   string
	Header []string
	Table  present.Table[Line] // its second column is the verdict
}

// details is a table about one row.
type details struct {
	Name, Line string
	Wrong      bool
	Table      any // a present.Table, which the page draws
}

type setting struct{ Name, Value string }

// view returns the parts of the page: the given plots, the report as JSON, and the tables.
func (r Report) view(s present.Style, drawn plots, raw json.RawMessage) map[string]any {
	var tables []viewTable // one for each workload
	for i, part := range r.Parts() {
		if i == 0 || len(part.Rows) > 0 {
			tables = append(tables, part.viewTable(s))
		}
	}
	var faults, items []details // of each row under chaos, and of each row with several items
	for _, row := range r.Rows {
		if row.Chaos != nil {
			name := s.Sayf("Faults, %s", s.Sayf("%s, seed %d", row.Strategy, row.Chaos.Seed))
			faults = append(faults, details{name, row.chaosLine(s), !row.Expected, row.Chaos.faultTable(s)})
		}
		if row.Items != nil {
			name := s.Sayf("Items, %s", row.in(s))
			items = append(items, details{name, row.Line(s), !row.Expected, row.Items.Table(s)})
		}
	}
	return map[string]any{
		"Wrong": !r.AsExpected(), "Headline": lines(r.Headline(s)), "Conclusion": lines(r.Conclusion(s)),
		"Tables": tables, "Chaos": faults, "Items": items, "Settings": r.Manifest.settings(s),
		"File": "oversell-" + r.Manifest.ID + ".json", "Plots": drawn, "Report": raw,
	}
}

func lines(text string) []string {
	return strings.FieldsFunc(text, func(c rune) bool { return c == '\n' })
}

// viewTable returns the table of a part of a report.
func (r Report) viewTable(s present.Style) viewTable {
	header, t := r.header(true, s), r.Table(s)
	// On the page the verdict comes first, followed by the speed; in the text both are at the end.
	last := len(t.Columns) - 1
	if slices.Contains([]string{"sold/s", "reads/s"}, t.Columns[last-1].Name) {
		last--
	}
	end := slices.Clone(t.Columns[last:])
	slices.Reverse(end)
	t.Columns = slices.Concat(t.Columns[:1], end, t.Columns[1:last])
	return viewTable{header[0], header[1:], t}
}

// settings lists the settings of a report. For further workloads it lists only those that differ.
func (m Manifest) settings(s present.Style) []setting {
	all := m.ownSettings(s)
	for _, also := range m.Also {
		for _, one := range also.ownSettings(s) {
			if !slices.Contains(all, one) {
				all = append(all, setting{s.Sayf("%s: %s", also.Workload, one.Name), one.Value})
			}
		}
	}
	return all
}

// ownSettings lists the settings of a manifest that have a value.
func (m Manifest) ownSettings(s present.Style) []setting {
	all := []setting{
		{"bench", m.ID}, {"started", m.Started.UTC().Format(time.RFC3339)}, {"oversell", m.Version},
		{"redis", s.Say(m.Redis)}, {"database", s.Say(m.DB)}, {"Go", m.Go},
		{"machine", s.Sayf("%s, %d CPUs", m.OS, m.CPUs)},
		{"flags", strings.Join(m.Flags, " ")}, {"workload", m.Workload}, {"requests", fmt.Sprint(m.Requests)},
	}
	switch {
	case m.Rate > 0:
		all = append(all, setting{"rate",
			s.Sayf("%d a second for %s, at most %d in flight", m.Rate, m.Duration, m.InFlight)})
	case m.InFlight > 0:
		all = append(all, setting{"connections", fmt.Sprint(m.InFlight)})
	}
	if m.Items > 0 {
		all = append(all, setting{"items", fmt.Sprintf("%d, %s", m.Items, m.Skew)})
	}
	if m.Seed > 0 {
		all = append(all, setting{"seed", fmt.Sprint(m.Seed)})
	}
	all = append(all, []setting{
		{"stock", fmt.Sprint(m.Stock)}, {"shops", fmt.Sprint(m.Instances)}, {"targets", strings.Join(m.Targets, " ")},
		{"ttl", m.TTL}, {"work", m.Work}, {"wait", m.Wait}, {"retry", m.Retry}, {"keys", m.Keys},
		{"second look", s.Say(fmt.Sprint(m.SecondLook))}, {"runs of each row", fmt.Sprint(m.Repeat)},
	}...)
	all = slices.DeleteFunc(all, func(one setting) bool { return one.Value == "" })
	for i := range all {
		all[i].Name = s.Say(all[i].Name)
	}
	return all
}
