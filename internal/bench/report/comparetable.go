package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"oversell/internal/figures"
	"oversell/internal/present"
)

// unclear marks a difference that may be noise.
const unclear = " ?"

// writeComparison writes the text of a comparison, with a note about unclear differences.
func writeComparison(w io.Writer, b *strings.Builder, conclusion string) error {
	if strings.Contains(b.String(), unclear+"\n") {
		b.WriteString("\n?  with so few runs the difference may be chance; use -repeat 4 or more on both sides\n")
	}
	b.WriteString(conclusion)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

// title names a file and describes its report.
func (f File) title() string {
	m := f.Manifest
	title := fmt.Sprintf("%s, %d rows", f.Name, len(f.Rows))
	if !m.Started.IsZero() {
		title += ", started " + m.Started.UTC().Format("2006-01-02 15:04:05 MST")
	}
	if m.Version != "" {
		title += ", oversell " + m.Version
	}
	return title
}

// ranOn describes the load and the servers of both reports.
func ranOn(m Manifest) string {
	return m.Load(present.Style{}) + "\n" + fmt.Sprintf("redis: %s; db: %s; %s\n", m.Redis, m.DB, m.Go)
}

// tables writes what the figures are, and a table for each figure of each workload of r.
func (r Report) tables(b *strings.Builder, all []pair, columns func(f figure, t *present.Table[pair])) {
	b.WriteString("medians, and their intervals where runs differ; \"no difference\": the intervals overlap\n")
	for i, part := range r.Parts() {
		pairs := slices.DeleteFunc(slices.Clone(all), func(p pair) bool {
			return len(r.Manifest.Also) > 0 && string(p.old.Workload) != part.Manifest.Workload
		})
		if len(pairs) == 0 {
			continue
		}
		if i > 0 {
			fmt.Fprintf(b, "\n%s\n", part.Manifest.Load(present.Style{}))
		}
		for _, f := range compared(part.Manifest) {
			t := present.Table[pair]{Rows: pairs, Under: func(p pair) string { return string(p.now.Condition) }}
			t.Add(f.title, func(p pair) string { return p.now.Strategy })
			columns(f, &t)
			fmt.Fprintf(b, "\n%s", t.Text(present.Style{}))
		}
	}
}

// estimate adds a column of a figure's medians and a column of their intervals, which are shown where
// runs differ.
func (f figure) estimate(name string, of func(pair) Group, t *present.Table[pair]) {
	show := func(v float64) string { return fmt.Sprintf(f.format, v) }
	t.Number(name, func(p pair) string {
		if e, known := of(p).Figures[f.name]; known {
			return show(e.Median)
		}
		return ""
	})
	t.Add("", func(p pair) string {
		if e := of(p).Figures[f.name]; e.Low != e.High {
			return show(e.Low) + ".." + show(e.High)
		}
		return ""
	})
}

func change(old, now float64) string { return fmt.Sprintf("%+.1f%%", 100*(now/old-1)) }

func ratio(old, now float64) string { return fmt.Sprintf("%.2f×", now/old) }

// difference describes how much a figure differs between the groups, or returns "" if one of them
// lacks it.
func (p pair) difference(f figure, say func(old, now float64) string) string {
	old, before := p.old.Figures[f.name]
	now, after := p.now.Figures[f.name]
	if !before || !after {
		return ""
	}
	text := "from 0"
	if old.Median != 0 {
		text = say(old.Median, now.Median)
	}
	switch old.Differs(now) {
	case figures.None:
		return "no difference"
	case figures.Unclear:
		text += unclear
	}
	return text
}

// conclusion says in one sentence how many verdicts changed, and which row changed its speed the most.
func conclusion(pairs []pair) string {
	verdicts, faster := 0, 0
	var most pair
	largest := 0.0
	for _, p := range pairs {
		if !p.sameVerdicts() {
			verdicts++
		}
		old, now := p.old.Figures["throughput"], p.now.Figures["throughput"]
		if old.Differs(now) == figures.None {
			continue
		}
		faster++
		if by := math.Abs(math.Log(now.Median / old.Median)); by >= largest {
			largest, most = by, p
		}
	}
	text := fmt.Sprintf("\n%d of %s changed verdict; ", verdicts, present.Plural(len(pairs), "row"))
	if faster == 0 {
		return text + "none is faster or slower\n"
	}
	by := most.difference(figure{name: "throughput"}, change)
	return text + fmt.Sprintf("%d faster or slower, most of all %s: %s\n", faster, most.now.in(present.Style{}), by)
}

// verdicts lists the rows whose verdicts changed, or whose share of expected runs changed.
func verdicts(pairs []pair) string {
	var b strings.Builder
	for _, p := range pairs {
		if !p.sameVerdicts() {
			english := present.Style{}
			fmt.Fprintf(&b, "  %s: %s → %s\n", p.now.in(english), p.old.Verdict(english), p.now.Verdict(english))
		}
	}
	if b.Len() == 0 {
		return "The verdicts are the same.\n"
	}
	return "Changed verdicts:\n" + b.String()
}

func (p pair) sameVerdicts() bool {
	same := p.old.Expected*p.now.Runs == p.now.Expected*p.old.Runs
	for v := range p.old.Verdicts {
		same = same && p.now.Verdicts[v] > 0
	}
	return same && len(p.old.Verdicts) == len(p.now.Verdicts)
}

// unusualLeases lists the runs whose ttl differed from that of the other runs, because an earlier try
// did not count, or because of their strategy or condition.
func (f File) unusualLeases() string {
	var b strings.Builder
	for _, row := range f.Rows {
		if row.TTL != "" && row.TTL != f.Manifest.of(row.Workload).TTL {
			why := ""
			if len(row.Discarded) > 0 {
				why = ", because a process stalled or a fault was not injected"
			}
			fmt.Fprintf(&b, "%s: run %d of %s under %s had a ttl of %s%s.\n",
				f.Name, row.Repeat, row.Strategy, row.Condition, row.TTL, why)
		}
	}
	return b.String()
}
