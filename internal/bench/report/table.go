package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
	"oversell/internal/stock"
)

// WriteTable writes the report for a person: what it ran on, a line for each row, the conclusion,
// and the headline. If s has colour, verdicts are coloured.
func (r Report) WriteTable(w io.Writer, s present.Style) error {
	var out strings.Builder
	if r.ofLocks() {
		out.WriteString(r.lockTables(s))
	}
	for i, part := range r.Parts() {
		if r.ofLocks() || i > 0 && len(part.Rows) == 0 {
			continue
		}
		out.WriteString(strings.Join(part.header(i == 0, s), "\n") + "\n\n")
		out.WriteString(part.Table(s).Text(s))
		out.WriteString(part.faults(s))
		out.WriteString("\n")
	}
	out.WriteString(r.Conclusion(s) + r.Headline(s))
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the report's table: %w", err)
	}
	return nil
}

// header describes how the figures of a part were measured, and explains them. If servers is false,
// it leaves out the servers and the machine, which all parts have in common.
func (r Report) header(servers bool, s present.Style) []string {
	m := r.Manifest
	lines := []string{m.Load(s)}
	if servers {
		all := []string{s.Sayf("redis: %s", s.Say(m.Redis)), s.Sayf("db: %s", s.Say(m.DB))}
		all = append(all, m.Servers...)
		all = append(all, s.Sayf("%s on %s, %d CPUs", m.Go, m.OS, m.CPUs))
		lines = append(lines, strings.Join(all, s.Say("; ")))
	}
	lines = append(lines, m.latencies(s)...)
	if m.Items > 0 {
		lines = append(lines,
			s.Say("not ok: items whose own verdict is not ok; worst item: by its verdict, then what it oversold or "+
				"stranded, then its buyers"),
			s.Say("items are numbered from 1, the one that most buyers want; faults hit its holders"))
	}
	if m.Rate == 0 && m.InFlight > 0 {
		lines = append(lines, s.Sayf("at most %d requests are in flight, and the others wait for a connection: "+
			"see -in-flight and the limit on open files", m.InFlight))
	}
	for _, c := range r.Table(s).Columns {
		if c.Rare != "" {
			lines = append(lines, s.Sayf("%s: %s", s.Title(c.Name), s.Say(c.Rare)))
		}
	}
	if r.repeats() {
		lines = append(lines, r.medians(s))
	}
	return lines
}

// latencies explains the measured times, one line for each of them.
func (m Manifest) latencies(s present.Style) []string {
	switch {
	case m.kind() == held:
		return []string{
			s.Say("charged: payments captured; no order: captures that ended in neither exactly one order nor " +
				"exactly one refund"),
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
func (m Manifest) Load(s present.Style) string {
	shops := s.Count(m.Instances, "instance")
	if len(m.Targets) > 0 {
		shops = s.Sayf("shops at %s", strings.Join(m.Targets, ", "))
	}
	var load []string
	settings := s.Sayf("ttl %s, work %s, wait %s, retry %s", m.TTL, m.Work, m.Wait, m.Retry)
	switch m.kind() {
	case reads:
		load = []string{s.Sayf("%s of a cold key", s.Count(m.Requests, "concurrent reader")), shops}
		if !m.SecondLook {
			load = append(load, s.Say("without the second look"))
		}
	case held:
		load = []string{s.Sayf("%s who hold a unit and pay later", s.Count(m.Requests, "buyer")),
			s.Count(int(m.Stock), "unit"), shops}
		return strings.Join(load, s.Say(", ")) + s.Say("; ") + s.Sayf("holds expire after %s", m.TTL)
	case opens:
		load = []string{perSecond(s, m.Rate, m.Duration), s.Sayf("%d in all", m.Requests), m.units(s), shops}
	default:
		load = []string{s.Count(m.Requests, "concurrent buyer"), m.units(s), shops}
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
		load = append(load, s.Sayf("accepted orders on %s", s.Count(m.Replicas, "replica")))
	}
	line := strings.Join(load, s.Say(", "))
	if len(m.Targets) > 0 {
		return line
	}
	return line + s.Say("; ") + settings
}

// perSecond describes the rate and the duration of an open load.
func perSecond(s present.Style, rate int, duration string) string {
	return s.Sayf("%s a second for %s", s.Count(rate, "buyer"), duration)
}

// units describes the numbers of units and items on sale.
func (m Manifest) units(s present.Style) string {
	units := s.Count(int(m.Stock), "unit")
	if m.Items == 0 {
		return units
	}
	return s.Sayf("%s of %s (%s)", units, s.Count(m.Items, "item"), m.Skew)
}

// medians explains the figures of repeated rows.
func (r Report) medians(s present.Style) string {
	var runs []int
	for _, g := range r.groups() {
		runs = append(runs, g.Runs)
	}
	n, confidence := fewestAndMost(runs, s)
	return s.Sayf("each figure is the median of %s runs; where they differ, the line below has its %.0f%% "+
		"confidence interval", n, confidence)
}

// fewestAndMost describes the numbers of runs of several rows. It returns the confidence of the
// intervals of the fewest runs, in percent.
func fewestAndMost(runs []int, s present.Style) (text string, confidence float64) {
	fewest, most := slices.Min(runs), slices.Max(runs)
	text = fmt.Sprint(most)
	if fewest < most {
		text = s.Sayf("%d or %d", fewest, most)
	}
	return text, math.Floor(100 * figures.Confidence(fewest))
}

// heading names a condition, and describes how its rows were run if that differs from the header:
// under a failover buyers arrive at a rate, and leases are long.
func (r Report) heading(c catalog.Condition, s present.Style) string {
	rows := r.under(c)
	if c != catalog.Failover || len(rows) == 0 || rows[0].Rate == 0 {
		return s.Condition(c)
	}
	how := []string{perSecond(s, rows[0].Rate, rows[0].Duration)}
	if rows[0].TTL != "" {
		how = append(how, s.Sayf("ttl %s", rows[0].TTL))
	}
	inDatabase := func(row Row) bool { return row.Keeper == stock.InDatabase }
	if r.Manifest.Keeper == "" && slices.ContainsFunc(rows, inDatabase) {
		how = append(how, s.Say("stock in the database where the strategy allows it"))
	}
	if r.Manifest.Rate == 0 {
		how = append(how, s.Say("latencies from the planned time of each request"))
	}
	return s.Sayf("%s: %s", s.Condition(c), strings.Join(how, s.Say("; ")))
}

// oversold returns the colours of the oversold figure.
func (l Line) oversold() text.Colors {
	e := l.Figures["oversold"]
	if e.Median > 0 || l.Intervals && e.High > 0 {
		return text.Colors{text.FgRed}
	}
	return nil
}

// colours returns the colours of the verdict.
func (l Line) colours() text.Colors {
	worst := map[string]text.Color{"good": text.FgGreen, "fair": text.FgYellow, "bad": text.FgRed}
	colours := text.Colors{worst[l.Worst()]}
	if l.Expected < l.Runs {
		colours = append(colours, text.Bold, text.ReverseVideo)
	}
	return colours
}
