package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/stock"
)

// WriteTable writes the report for a person: what it ran on, a line for each row, and
// the conclusion. With colour it colours verdicts.
func (r Report) WriteTable(w io.Writer, colour bool) error {
	var out strings.Builder
	for i, part := range r.Parts() {
		if i > 0 && len(part.Rows) == 0 {
			continue
		}
		out.WriteString(part.header(i == 0))
		out.WriteString("\n")
		out.WriteString(drawTable(part, colour))
		out.WriteString(part.faults())
		out.WriteString("\n")
	}
	out.WriteString(r.Conclusion())
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the report's table: %w", err)
	}
	return nil
}

// Header says what the figures of a part were measured with, and explains them.
func (r Report) Header() string { return r.header(true) }

// header is Header. What all parts of a report were run on is left out unless it is to be
// named.
func (r Report) header(servers bool) string {
	m := r.Manifest
	var b strings.Builder
	b.WriteString(m.Load())
	if servers {
		all := append([]string{"redis: " + m.Redis, "db: " + m.DB}, m.Servers...)
		fmt.Fprintf(&b, "%s; %s on %s, %d CPUs\n", strings.Join(all, "; "), m.Go, m.OS, m.CPUs)
	}
	b.WriteString(m.latencies())
	b.WriteString(m.items())
	for _, c := range r.columns() {
		if c.bad != "" {
			fmt.Fprintf(&b, "%s: %s\n", c.title, c.bad)
		}
	}
	if r.repeats() {
		b.WriteString(r.medians())
	}
	return b.String()
}

// latencies says from when to when latencies are measured.
func (m Manifest) latencies() string {
	if m.kind() == held {
		return "charged: payments captured; no order: captures that ended in neither exactly one order nor exactly one refund\n" +
			"sellable: seconds from a hold's expiry until its units could be sold again, the longest\n" +
			"agrees: seconds from the end of the load until units, holds, orders and payments agreed\n" +
			"latencies in ms, of holding and paying, without the time in between\n"
	}
	if m.Rate == 0 {
		return "latencies in ms, from the common start to each request's outcome\n"
	}
	return "response: ms from the planned time of a request to its outcome; service: from the time it was sent\n" +
		fmt.Sprintf("dropped: not sent, because %d requests were in flight at the planned time\n", m.InFlight)
}

// Load describes the load in one line.
func (m Manifest) Load() string {
	shops := Plural(m.Instances, "instance")
	if len(m.Targets) > 0 {
		shops = "shops at " + strings.Join(m.Targets, ", ")
	}
	var b strings.Builder
	switch m.kind() {
	case reads:
		fmt.Fprintf(&b, "%s of a cold key, %s", Plural(m.Requests, "concurrent reader"), shops)
		if !m.SecondLook {
			b.WriteString(", without the second look")
		}
	case held:
		fmt.Fprintf(&b, "%s who hold a unit and pay later, %s, %s; holds expire after %s\n", Plural(m.Requests, "buyer"), Plural(int(m.Stock), "unit"), shops, m.TTL)
		return b.String()
	case opens:
		fmt.Fprintf(&b, "%s a second for %s, %d in all, %s, %s", Plural(m.Rate, "buyer"), m.Duration, m.Requests, m.units(), shops)
	default:
		fmt.Fprintf(&b, "%s, %s, %s", Plural(m.Requests, "concurrent buyer"), m.units(), shops)
	}
	if m.Keeper != "" {
		fmt.Fprintf(&b, ", stock in %s", m.Keeper)
	}
	if m.Seed != 0 {
		fmt.Fprintf(&b, ", seed %d", m.Seed)
	}
	if m.Unfenced {
		b.WriteString(", fencing tokens not checked")
	}
	if m.Replicas > 0 {
		fmt.Fprintf(&b, ", accepted orders on %s", Plural(m.Replicas, "replica"))
	}
	if len(m.Targets) == 0 {
		fmt.Fprintf(&b, "; ttl %s, work %s, wait %s, retry %s", m.TTL, m.Work, m.Wait, m.Retry)
	}
	b.WriteString("\n")
	return b.String()
}

// units says how many units are on sale, and of how many items.
func (m Manifest) units() string {
	units := Plural(int(m.Stock), "unit")
	if m.Items == 0 {
		return units
	}
	return fmt.Sprintf("%s of %s (%s)", units, Plural(m.Items, "item"), m.Skew)
}

// items explains what is shown of several items.
func (m Manifest) items() string {
	if m.Items == 0 {
		return ""
	}
	text := "not ok: items whose own verdict is not ok; worst item: by its verdict, then what it oversold or stranded, then its buyers\n" +
		"items are numbered from 1, the one that most buyers want; faults hit its holders\n"
	if m.Rate == 0 && m.InFlight > 0 {
		text += fmt.Sprintf("at most %d requests are in flight, and the others wait for a connection: -in-flight, or the open files that are allowed\n", m.InFlight)
	}
	return text
}

// medians explains the figures of repeated rows.
func (r Report) medians() string {
	fewest, most := runs(r.Groups())
	n := fmt.Sprint(most)
	if fewest < most {
		n = fmt.Sprintf("%d or %d", fewest, most)
	}
	return fmt.Sprintf("each figure is the median of %s runs; where they differ, the line below has its %.0f%% confidence interval\n",
		n, math.Floor(100*figures.Confidence(fewest)))
}

// Line is one line of the table: a condition, which has one cell; a row; or the
// intervals of a row's medians, whose first cell is empty.
type Line struct {
	Cells    []string
	Oversold bool
	Verdicts []figures.Verdict // of a row
	Wrong    bool              // it did not match the expectation
}

// Table is the table of a report, for code that draws it in another way.
type Table struct {
	Titles []string
	Lines  []Line
}

// Table returns the table of the rows.
func (r Report) Table() Table {
	var s Table
	shown := r.columns()
	for _, c := range shown {
		s.Titles = append(s.Titles, c.title)
	}
	s.Lines = r.lines(shown)
	return s
}

// lines returns a block of lines for each condition: one line for each row, or two if
// the rows were repeated, with the medians and with their intervals.
func (r Report) lines(shown []column) []Line {
	var out []Line
	var last catalog.Condition
	begin := func(c catalog.Condition) {
		if c != last {
			out = append(out, Line{Cells: []string{r.heading(c)}})
		}
		last = c
	}
	if !r.repeats() {
		for _, row := range r.Rows {
			begin(row.Condition)
			out = append(out, newLine(shown, row))
		}
		return out
	}
	for _, g := range r.Groups() {
		begin(g.Condition)
		out = append(out, newLines(shown, g)...)
	}
	return out
}

// heading names a condition, and says how its rows were run if not as the header says:
// under a failover buyers arrive at a rate, and leases are long.
func (r Report) heading(c catalog.Condition) string {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Condition != c })
	if c != catalog.Failover || len(rows) == 0 || rows[0].Rate == 0 {
		return string(c)
	}
	text := fmt.Sprintf("%s: %s a second for %s", c, Plural(rows[0].Rate, "buyer"), rows[0].Duration)
	if rows[0].TTL != "" {
		text += "; ttl " + rows[0].TTL
	}
	if r.Manifest.Keeper == "" && slices.ContainsFunc(rows, func(row Row) bool { return row.Keeper == stock.InDatabase }) {
		text += "; stock in the database where the strategy allows it"
	}
	if r.Manifest.Rate == 0 {
		text += "; latencies from the planned time of each request"
	}
	return text
}

func newLine(shown []column, row Row) Line {
	l := Line{Oversold: row.Oversold > 0, Verdicts: []figures.Verdict{row.Verdict}, Wrong: !row.Expected}
	for _, c := range shown {
		l.Cells = append(l.Cells, c.row(row))
	}
	return l
}

func newLines(shown []column, g Group) []Line {
	median := Line{
		Oversold: g.Figures["oversold"].Median > 0,
		Verdicts: slices.Collect(maps.Keys(g.Verdicts)),
		Wrong:    g.Expected < g.Runs,
	}
	interval := Line{Oversold: g.Figures["oversold"].High > 0}
	vary := false
	for _, c := range shown {
		median.Cells = append(median.Cells, c.median(g))
		interval.Cells = append(interval.Cells, c.interval(g))
		vary = vary || c.interval(g) != ""
	}
	if !vary {
		return []Line{median}
	}
	return []Line{median, interval}
}

// maxWidth is how wide a drawn table should be at most, in characters.
const maxWidth = 120

// drawTable draws the lines. A table that is too wide does without some columns, then without
// some space between them, and then without more columns.
func drawTable(r Report, colour bool) string {
	gap := wideGap
	fits := func(shown []column) bool { return text.LongestLineLen(r.draw(shown, gap, false)) <= maxWidth }
	shown, without := r.within(second, fits)
	if !fits(shown) {
		gap = narrowGap
		shown, without = r.within(third, fits)
	}
	drawn := r.draw(shown, gap, colour)
	if len(without) > 0 {
		drawn += "\nleft out to fit the width: " + strings.Join(without, ", ") + " (-json and -html have them)"
	}
	return drawn + "\n"
}

// draw draws the lines with the columns.
func (r Report) draw(shown []column, gap string, colour bool) string {
	heads := make([]Head, len(shown))
	breaks := strings.NewReplacer(" ", "\n", "cmds/", "cmds\n/")
	for i, c := range shown {
		heads[i] = Head{breaks.Replace(c.title), c.left}
	}
	var cells [][]string
	headings := make(map[string]string)
	for _, l := range r.lines(shown) {
		if len(l.Cells) == 1 {
			// The full text would widen the first column.
			name, _, _ := strings.Cut(l.Cells[0], ":")
			headings[name], l.Cells = l.Cells[0], []string{name}
		}
		if colour {
			l = l.coloured(shown)
		}
		cells = append(cells, l.Cells)
	}
	lines := strings.Split(draw(heads, cells, gap), "\n")
	for i, text := range lines {
		if heading, found := headings[text]; found {
			lines[i] = heading
		}
	}
	return strings.Join(lines, "\n")
}

// coloured colours the verdicts, and what was oversold.
func (l Line) coloured(shown []column) Line {
	l.Cells = slices.Clone(l.Cells)
	for i := range l.Cells {
		switch {
		case shown[i].title == titleVerdict && len(l.Verdicts) > 0:
			l.Cells[i] = l.verdictColours().Sprint(l.Cells[i])
		case shown[i].title == titleOversold && l.Oversold:
			l.Cells[i] = text.FgRed.Sprint(l.Cells[i])
		}
	}
	return l
}

func (l Line) verdictColours() text.Colors {
	colours := text.Colors{verdictColour(l.Verdicts)}
	if l.Wrong {
		colours = append(colours, text.Bold, text.ReverseVideo)
	}
	return colours
}

// verdictColour is the colour of the worst verdict.
func verdictColour(verdicts []figures.Verdict) text.Color {
	colour := text.FgGreen
	for _, v := range verdicts {
		switch v {
		case figures.OK:
		case figures.Oversold, figures.Stuck:
			return text.FgRed
		default:
			colour = text.FgYellow
		}
	}
	return colour
}
