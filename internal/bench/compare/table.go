package compare

import (
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"oversell/internal/bench"
	"oversell/internal/bench/sheet"
	"oversell/internal/figures"
)

// unclear marks a difference that may be noise.
const unclear = " ?"

// WriteFiles writes what changed from one report to another, as Files found it:
// figure by figure a table of all rows, and then the verdicts that changed.
func (c Comparison) WriteFiles(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "old: %s\nnew: %s\n", c.Old.title(), c.New.title())
	b.WriteString(ranOn(c.Old.Manifest))
	if diff := differing(told(), c.Old.Manifest, c.New.Manifest); diff != "" {
		fmt.Fprintf(&b, "they differ in %s\n", diff)
	}
	b.WriteString(meaning)
	marked := false
	for _, f := range compared(c.Old.Manifest) {
		t := newTable(f.title, "old", "", "new", "", "change")
		marked = c.rows(t, func(p Pair) ([]any, bool) {
			change, doubtful := p.change(f)
			old, interval := f.estimate(p.Old)
			now, after := f.estimate(p.New)
			return []any{old, interval, now, after, change}, doubtful
		}) || marked
		fmt.Fprintf(&b, "\n%s\n", t.Render())
	}
	b.WriteString("\n")
	b.WriteString(c.verdicts())
	for _, text := range c.Alone {
		fmt.Fprintf(&b, "%s.\n", text)
	}
	b.WriteString(c.Old.leases())
	b.WriteString(c.New.leases())
	return write(w, &b, marked)
}

// WriteStrategies writes how the strategies differ, as Strategies found it.
func (c Comparison) WriteStrategies(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s", c.Old.title(), ranOn(c.Old.Manifest))
	b.WriteString(meaning)
	marked := false
	for _, f := range compared(c.Old.Manifest) {
		t := newTable(f.title, "median", "", "to the first")
		marked = c.rows(t, func(p Pair) ([]any, bool) {
			median, interval := f.estimate(p.New)
			if p.Old.Key() == p.New.Key() {
				return []any{median, interval, ""}, false
			}
			ratio, doubtful := p.ratio(f)
			return []any{median, interval, ratio}, doubtful
		}) || marked
		fmt.Fprintf(&b, "\n%s\n", t.Render())
	}
	if leases := c.Old.leases(); leases != "" {
		b.WriteString("\n" + leases)
	}
	return write(w, &b, marked)
}

const meaning = "medians, and their intervals where runs differ; \"no difference\": the intervals overlap\n"

func write(w io.Writer, b *strings.Builder, marked bool) error {
	if marked {
		b.WriteString("\n?  with so few runs the intervals may well be apart by chance; -repeat 4 and more on either side shows more\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

// title names a file, and what is in it.
func (f File) title() string {
	m := f.Manifest
	title := fmt.Sprintf("%s, %d rows", f.Name, len(f.Rows))
	if !m.Started.IsZero() {
		title += ", of " + m.Started.UTC().Format("2006-01-02 15:04:05 MST")
	}
	if m.Version != "" {
		title += ", oversell " + m.Version
	}
	return title
}

// ranOn says what both reports were made with.
func ranOn(m bench.Manifest) string {
	return m.Load() + fmt.Sprintf("redis: %s; db: %s; %s\n", m.Redis, m.DB, m.Go)
}

// newTable returns a table whose first column has the rows' names. A column
// without a title belongs to the one before it.
func newTable(titles ...string) table.Writer {
	heads := make([]sheet.Column, len(titles))
	for i, title := range titles {
		heads[i] = sheet.Column{Title: title, Left: i == 0 || title == ""}
	}
	return sheet.New(heads)
}

// rows adds a line for each pair, a block for each condition, and reports
// whether any difference is doubtful.
func (c Comparison) rows(t table.Writer, cells func(p Pair) ([]any, bool)) bool {
	marked, under := false, ""
	for i, p := range c.Pairs {
		if i == 0 || p.Under != under {
			t.AppendRow(table.Row{p.Under})
			under = p.Under
		}
		line, doubtful := cells(p)
		marked = marked || doubtful
		t.AppendRow(append(table.Row{"  " + p.Name}, line...))
	}
	return marked
}

// estimate is the median and, where the runs differ, its interval. Of what was not
// counted there is neither.
func (f figure) estimate(g bench.Group) (median, interval string) {
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

// change is by how much a figure changed, and whether that is doubtful.
func (p Pair) change(f figure) (text string, doubtful bool) {
	old, now := p.Old.Figures[f.name].Median, p.New.Figures[f.name].Median
	return p.difference(f, func() string {
		if old == 0 {
			return "from nothing"
		}
		return fmt.Sprintf("%+.1f%%", 100*(now/old-1))
	})
}

// ratio is how many times as large a figure is, and whether that is doubtful.
func (p Pair) ratio(f figure) (text string, doubtful bool) {
	old, now := p.Old.Figures[f.name].Median, p.New.Figures[f.name].Median
	return p.difference(f, func() string {
		ratio := now / old
		if math.IsInf(ratio, 0) || math.IsNaN(ratio) {
			return "from nothing"
		}
		return fmt.Sprintf("%.2f times", ratio)
	})
}

func (p Pair) difference(f figure, say func() string) (text string, doubtful bool) {
	_, before := p.Old.Figures[f.name]
	if _, now := p.New.Figures[f.name]; !before || !now {
		return "", false // one of them was not counted
	}
	switch p.differs(f) {
	case figures.None:
		return "no difference", false
	case figures.Unclear:
		return say() + unclear, true
	}
	return say(), false
}

// verdicts tells which verdicts changed, or how often they came out as they must.
func (c Comparison) verdicts() string {
	var b strings.Builder
	for _, p := range c.Pairs {
		if !p.sameVerdicts() {
			fmt.Fprintf(&b, "  %s under %s: %s, and now %s\n", p.Name, p.Under, p.Old.Verdict(), p.New.Verdict())
		}
	}
	if b.Len() == 0 {
		return "The verdicts are the same.\n"
	}
	return "The verdicts that changed:\n" + b.String()
}

func (p Pair) sameVerdicts() bool {
	same := p.Old.Expected*p.New.Runs == p.New.Expected*p.Old.Runs
	for v := range p.Old.Verdicts {
		same = same && p.New.Verdicts[v] > 0
	}
	return same && len(p.Old.Verdicts) == len(p.New.Verdicts)
}

// leases tells which runs had another ttl than the rest: since the machine stood still
// in an earlier try, or for a reason that lies in the row.
func (f File) leases() string {
	var b strings.Builder
	for _, row := range f.Rows {
		if row.TTL != "" && row.TTL != f.Manifest.TTL {
			why := ""
			if len(row.Discarded) > 0 {
				why = ", since the machine stood still"
			}
			fmt.Fprintf(&b, "%s: run %d of %s under %s had a ttl of %s%s.\n",
				f.Name, row.Repeat, row.Strategy, row.Condition, row.TTL, why)
		}
	}
	return b.String()
}
