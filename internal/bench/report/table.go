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
func (r Report) WriteTable(w io.Writer, s Style) error {
	var out strings.Builder
	for i, part := range r.Parts() {
		if i > 0 && len(part.Rows) == 0 {
			continue
		}
		out.WriteString(part.header(i == 0, s))
		out.WriteString("\n")
		out.WriteString(drawTable(part, s))
		out.WriteString(part.faults(s))
		out.WriteString("\n")
	}
	out.WriteString(r.Conclusion(s))
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the report's table: %w", err)
	}
	return nil
}

// Header says what the figures of a part were measured with, and explains them.
func (r Report) Header(s Style) string { return r.header(true, s) }

// header is Header. What all parts of a report were run on is left out unless it is to be
// named.
func (r Report) header(servers bool, s Style) string {
	m := r.Manifest
	lines := []string{m.Load(s)}
	if servers {
		all := []string{s.Sayf("redis: %s", s.Say(m.Redis)), s.Sayf("db: %s", s.Say(m.DB))}
		for _, server := range m.Servers {
			all = append(all, s.Say(server))
		}
		all = append(all, s.Sayf("%s on %s, %d CPUs", m.Go, m.OS, m.CPUs))
		lines = append(lines, strings.Join(all, s.Say("; ")))
	}
	lines = append(lines, m.latencies(s)...)
	lines = append(lines, m.items(s)...)
	lines = append(lines, m.turns(s)...)
	for _, c := range r.columns() {
		if c.bad != "" {
			lines = append(lines, s.Sayf("%s: %s", s.Title(c.title), s.Say(c.bad)))
		}
	}
	if r.repeats() {
		lines = append(lines, r.medians(s))
	}
	return strings.Join(lines, "\n") + "\n"
}

// latencies says from when to when latencies are measured, a line each.
func (m Manifest) latencies(s Style) []string {
	switch {
	case m.kind() == held:
		return []string{
			s.Say("charged: payments captured; no order: captures that ended in neither exactly one order nor exactly one refund"),
			s.Say("sellable: seconds from a hold's expiry until its units could be sold again, the longest"),
			s.Say("agrees: seconds from the end of the load until units, holds, orders and payments agreed"),
			s.Say("latencies in ms, of holding and paying, without the time in between"),
		}
	case m.Rate == 0:
		return []string{s.Say("latencies in ms, from the common start to each request's outcome")}
	}
	return []string{
		s.Say("response: ms from the planned time of a request to its outcome; service: from the time it was sent"),
		s.Sayf("dropped: not sent, because %d requests were in flight at the planned time", m.InFlight),
	}
}

// Load describes the load in one line.
func (m Manifest) Load(s Style) string {
	shops := s.count(m.Instances, "instance")
	if len(m.Targets) > 0 {
		shops = s.Sayf("shops at %s", strings.Join(m.Targets, ", "))
	}
	var load []string
	settings := s.Sayf("ttl %s, work %s, wait %s, retry %s", s.Say(m.TTL), s.Say(m.Work), s.Say(m.Wait), m.Retry)
	switch m.kind() {
	case reads:
		load = []string{s.Sayf("%s of a cold key", s.count(m.Requests, "concurrent reader")), shops}
		if !m.SecondLook {
			load = append(load, s.Say("without the second look"))
		}
	case held:
		load = []string{s.Sayf("%s who hold a unit and pay later", s.count(m.Requests, "buyer")), s.count(int(m.Stock), "unit"), shops}
		return strings.Join(load, s.Say(", ")) + s.Say("; ") + s.Sayf("holds expire after %s", s.Say(m.TTL))
	case opens:
		load = []string{s.perSecond(m.Rate, m.Duration), s.Sayf("%d in all", m.Requests), m.units(s), shops}
	default:
		load = []string{s.count(m.Requests, "concurrent buyer"), m.units(s), shops}
	}
	if m.Keeper != "" {
		load = append(load, s.Say("stock in "+string(m.Keeper)))
	}
	if m.Seed != 0 {
		load = append(load, s.Sayf("seed %d", m.Seed))
	}
	if m.Unfenced {
		load = append(load, s.Say("fencing tokens not checked"))
	}
	if m.Replicas > 0 {
		load = append(load, s.Sayf("accepted orders on %s", s.count(m.Replicas, "replica")))
	}
	line := strings.Join(load, s.Say(", "))
	if len(m.Targets) > 0 {
		return line
	}
	return line + s.Say("; ") + settings
}

// perSecond says how many buyers an open load has.
func (s Style) perSecond(rate int, duration string) string {
	return s.Sayf("%s a second for %s", s.count(rate, "buyer"), s.Say(duration))
}

// units says how many units are on sale, and of how many items.
func (m Manifest) units(s Style) string {
	units := s.count(int(m.Stock), "unit")
	if m.Items == 0 {
		return units
	}
	return s.Sayf("%s of %s (%s)", units, s.count(m.Items, "item"), m.Skew)
}

// items explains what is shown of several items, a line each.
func (m Manifest) items(s Style) []string {
	if m.Items == 0 {
		return nil
	}
	return []string{
		s.Say("not ok: items whose own verdict is not ok; worst item: by its verdict, then what it oversold or stranded, then its buyers"),
		s.Say("items are numbered from 1, the one that most buyers want; faults hit its holders"),
	}
}

// turns explains a burst with fewer connections than requests, in one line.
func (m Manifest) turns(s Style) []string {
	if m.Rate > 0 || m.InFlight == 0 {
		return nil
	}
	return []string{s.Sayf("at most %d requests are in flight, and the others wait for a connection: -in-flight, or the open files that are allowed", m.InFlight)}
}

// medians explains the figures of repeated rows.
func (r Report) medians(s Style) string {
	fewest, most := runs(r.Groups())
	n := fmt.Sprint(most)
	if fewest < most {
		n = s.Sayf("%d or %d", fewest, most)
	}
	return s.Sayf("each figure is the median of %s runs; where they differ, the line below has its %.0f%% confidence interval",
		n, math.Floor(100*figures.Confidence(fewest)))
}

// Line is one line of the table: a condition, which has one cell; a row; or the
// intervals of a row's medians, whose first cell is empty.
type Line struct {
	Cells    []string
	short    string // of a condition: its name alone
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
func (r Report) Table(s Style) Table {
	shown := r.columns()
	t := Table{Lines: r.lines(shown, s)}
	for _, c := range shown {
		t.Titles = append(t.Titles, s.Title(c.title))
	}
	return t
}

// lines returns a block of lines for each condition: one line for each row, or two if
// the rows were repeated, with the medians and with their intervals.
func (r Report) lines(shown []column, s Style) []Line {
	var out []Line
	var last catalog.Condition
	begin := func(c catalog.Condition) {
		if c != last {
			out = append(out, Line{Cells: []string{r.heading(c, s)}, short: s.Condition(c)})
		}
		last = c
	}
	if !r.repeats() {
		for _, row := range r.Rows {
			begin(row.Condition)
			out = append(out, newLine(shown, row, s))
		}
		return out
	}
	for _, g := range r.Groups() {
		begin(g.Condition)
		out = append(out, newLines(shown, g, s)...)
	}
	return out
}

// heading names a condition, and says how its rows were run if not as the header says:
// under a failover buyers arrive at a rate, and leases are long.
func (r Report) heading(c catalog.Condition, s Style) string {
	rows := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Condition != c })
	if c != catalog.Failover || len(rows) == 0 || rows[0].Rate == 0 {
		return s.Condition(c)
	}
	how := []string{s.perSecond(rows[0].Rate, rows[0].Duration)}
	if rows[0].TTL != "" {
		how = append(how, s.Sayf("ttl %s", s.Say(rows[0].TTL)))
	}
	if r.Manifest.Keeper == "" && slices.ContainsFunc(rows, func(row Row) bool { return row.Keeper == stock.InDatabase }) {
		how = append(how, s.Say("stock in the database where the strategy allows it"))
	}
	if r.Manifest.Rate == 0 {
		how = append(how, s.Say("latencies from the planned time of each request"))
	}
	return s.Sayf("%s: %s", s.Condition(c), strings.Join(how, s.Say("; ")))
}

func newLine(shown []column, row Row, s Style) Line {
	l := Line{Oversold: row.Oversold > 0, Verdicts: []figures.Verdict{row.Verdict}, Wrong: !row.Expected}
	for _, c := range shown {
		l.Cells = append(l.Cells, c.row(row, s))
	}
	return l
}

func newLines(shown []column, g Group, s Style) []Line {
	median := Line{
		Oversold: g.Figures["oversold"].Median > 0,
		Verdicts: slices.Collect(maps.Keys(g.Verdicts)),
		Wrong:    g.Expected < g.Runs,
	}
	interval := Line{Oversold: g.Figures["oversold"].High > 0}
	vary := false
	for _, c := range shown {
		median.Cells = append(median.Cells, c.median(g, s))
		interval.Cells = append(interval.Cells, c.interval(g))
		vary = vary || c.interval(g) != ""
	}
	if !vary {
		return []Line{median}
	}
	return []Line{median, interval}
}

// drawTable draws the lines. A table that is too wide does without some columns, then without
// some space between them, and then without more columns.
func drawTable(r Report, s Style) string {
	gap := wideGap
	fits := func(shown []column) bool {
		return text.LongestLineLen(r.draw(shown, gap, Style{Language: s.Language})) <= MaxWidth
	}
	shown, without := r.within(second, fits)
	if !fits(shown) {
		gap = narrowGap
		shown, without = r.within(third, fits)
	}
	drawn := r.draw(shown, gap, s)
	if len(without) > 0 {
		for i := range without {
			without[i] = s.Title(without[i])
		}
		drawn += "\n" + s.Sayf("left out to fit the width: %s (-json and -html have them)", strings.Join(without, s.Say(", ")))
	}
	return drawn + "\n"
}

// draw draws the lines with the columns.
func (r Report) draw(shown []column, gap string, s Style) string {
	heads := make([]Head, len(shown))
	breaks := strings.NewReplacer(" ", "\n", "cmds/", "cmds\n/")
	for i, c := range shown {
		heads[i] = Head{breaks.Replace(s.Say(c.title)), c.left}
	}
	var cells [][]string
	headings := make(map[string]string)
	for _, l := range r.lines(shown, s) {
		if len(l.Cells) == 1 {
			// The full text would widen the first column.
			headings[l.short], l.Cells = l.Cells[0], []string{l.short}
		}
		if s.Colour {
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
