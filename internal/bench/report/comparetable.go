package report

import (
	"fmt"
	"io"
	"math"
	"strings"

	"oversell/internal/figures"
)

// unclear marks a difference that may be noise.
const unclear = " ?"

// WriteFiles writes what changed from one report to another, as CompareFiles found it:
// figure by figure a table of all rows, and then the verdicts that changed.
func (c Comparison) WriteFiles(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "old: %s\nnew: %s\n", c.Old.title(), c.New.title())
	b.WriteString(ranOn(c.Old.Manifest))
	if diff := differing(mayDiffer(), c.Old.Manifest, c.New.Manifest); diff != "" {
		fmt.Fprintf(&b, "they differ in %s\n", diff)
	}
	b.WriteString(meaning)
	marked := c.tables(&b, []string{"old", "", "new", "", "change"}, func(f figure, p Pair) ([]string, bool) {
		change, doubtful := p.change(f)
		old, interval := f.estimate(p.Old)
		now, after := f.estimate(p.New)
		return []string{old, interval, now, after, change}, doubtful
	})
	b.WriteString("\n")
	b.WriteString(c.verdicts())
	for _, text := range c.Alone {
		fmt.Fprintf(&b, "%s.\n", text)
	}
	b.WriteString(c.Old.unusualLeases())
	b.WriteString(c.New.unusualLeases())
	return write(w, &b, marked)
}

// WriteStrategies writes how the strategies differ, as CompareStrategies found it.
func (c Comparison) WriteStrategies(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", c.Old.title(), ranOn(c.Old.Manifest))
	b.WriteString(meaning)
	marked := c.tables(&b, []string{"median", "", "vs first"}, func(f figure, p Pair) ([]string, bool) {
		median, interval := f.estimate(p.New)
		if p.Old.Key() == p.New.Key() {
			return []string{median, interval, ""}, false
		}
		ratio, doubtful := p.ratio(f)
		return []string{median, interval, ratio}, doubtful
	})
	if leases := c.Old.unusualLeases(); leases != "" {
		b.WriteString("\n" + leases)
	}
	return write(w, &b, marked)
}

const meaning = "medians, and their intervals where runs differ; \"no difference\": the intervals overlap\n"

func write(w io.Writer, b *strings.Builder, marked bool) error {
	if marked {
		b.WriteString("\n?  with so few runs the difference may be chance; use -repeat 4 or more on both sides\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

// title names a file and what it contains.
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

// ranOn says what both reports were measured with.
func ranOn(m Manifest) string {
	return m.Load(Style{}) + "\n" + fmt.Sprintf("redis: %s; db: %s; %s\n", m.Redis, m.DB, m.Go)
}

// tables writes a table of each figure of each workload, and reports whether any difference
// is doubtful.
func (c Comparison) tables(b *strings.Builder, titles []string, cells func(f figure, p Pair) ([]string, bool)) (marked bool) {
	for i, part := range c.Old.Parts() {
		pairs := c
		if len(c.Old.Manifest.Also) > 0 {
			pairs = c.part(part.Manifest)
		}
		if len(pairs.Pairs) == 0 {
			continue
		}
		if i > 0 {
			fmt.Fprintf(b, "\n%s\n", part.Manifest.Load(Style{}))
		}
		for _, f := range compared(part.Manifest) {
			drawn, doubtful := pairs.table(append([]string{f.title}, titles...), func(p Pair) ([]string, bool) { return cells(f, p) })
			marked = marked || doubtful
			fmt.Fprintf(b, "\n%s\n", drawn)
		}
	}
	return marked
}

// table draws a line for each pair, a block for each condition, and reports whether
// any difference is doubtful. The first column has the names of the rows; a column
// without a title belongs to the one before it.
func (c Comparison) table(titles []string, cells func(p Pair) ([]string, bool)) (drawn string, marked bool) {
	heads := make([]Head, len(titles))
	for i, title := range titles {
		heads[i] = Head{title, i == 0 || title == ""}
	}
	var lines [][]string
	under := ""
	for i, p := range c.Pairs {
		if i == 0 || p.Under != under {
			lines = append(lines, []string{p.Under})
			under = p.Under
		}
		line, doubtful := cells(p)
		marked = marked || doubtful
		lines = append(lines, append([]string{"  " + p.Name}, line...))
	}
	return Draw(heads, lines), marked
}

// estimate is the median and, if the runs differ, its interval. Both are "" for a
// figure that was not counted.
func (f figure) estimate(g Group) (median, interval string) {
	e, known := g.Figures[f.name]
	if !known {
		return "", ""
	}
	show := func(v float64) string { return fmt.Sprintf(f.format, v) }
	median = show(e.Median)
	if e.Low != e.High {
		interval = show(e.Low) + ".." + show(e.High)
	}
	return median, interval
}

// change is by how much a figure changed, and whether that may be noise.
func (p Pair) change(f figure) (text string, doubtful bool) {
	old, now := p.Old.Figures[f.name].Median, p.New.Figures[f.name].Median
	return p.difference(f, func() string {
		if old == 0 {
			return "from 0"
		}
		return fmt.Sprintf("%+.1f%%", 100*(now/old-1))
	})
}

// ratio compares a figure with the first strategy's, and says whether that may be noise.
func (p Pair) ratio(f figure) (text string, doubtful bool) {
	old, now := p.Old.Figures[f.name].Median, p.New.Figures[f.name].Median
	return p.difference(f, func() string {
		ratio := now / old
		if math.IsInf(ratio, 0) || math.IsNaN(ratio) {
			return "from 0"
		}
		return fmt.Sprintf("%.2f×", ratio)
	})
}

func (p Pair) difference(f figure, say func() string) (text string, doubtful bool) {
	_, before := p.Old.Figures[f.name]
	if _, now := p.New.Figures[f.name]; !before || !now {
		return "", false // at least one was not counted
	}
	switch p.differs(f) {
	case figures.None:
		return "no difference", false
	case figures.Unclear:
		return say() + unclear, true
	}
	return say(), false
}

// verdicts lists the rows whose verdicts changed, or how often they were as expected.
func (c Comparison) verdicts() string {
	var b strings.Builder
	for _, p := range c.Pairs {
		if !p.sameVerdicts() {
			fmt.Fprintf(&b, "  %s under %s: %s → %s\n", p.Name, p.Under, p.Old.Verdict(Style{}), p.New.Verdict(Style{}))
		}
	}
	if b.Len() == 0 {
		return "The verdicts are the same.\n"
	}
	return "Changed verdicts:\n" + b.String()
}

func (p Pair) sameVerdicts() bool {
	same := p.Old.Expected*p.New.Runs == p.New.Expected*p.Old.Runs
	for v := range p.Old.Verdicts {
		same = same && p.New.Verdicts[v] > 0
	}
	return same && len(p.Old.Verdicts) == len(p.New.Verdicts)
}

// unusualLeases lists the runs that had another ttl than the rest: because a process
// stalled in an earlier try, or because of their strategy or condition.
func (f File) unusualLeases() string {
	var b strings.Builder
	for _, row := range f.Rows {
		if row.TTL != "" && row.TTL != f.Manifest.of(row.Workload).TTL {
			why := ""
			if len(row.Discarded) > 0 {
				why = ", because a process stalled"
			}
			fmt.Fprintf(&b, "%s: run %d of %s under %s had a ttl of %s%s.\n",
				f.Name, row.Repeat, row.Strategy, row.Condition, row.TTL, why)
		}
	}
	return b.String()
}
