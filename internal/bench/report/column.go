package report

import (
	"fmt"
	"slices"
	"strings"

	"oversell/internal/catalog"
)

// column is one column of the table.
type column struct {
	title  string
	figure string                 // by its name in JSON, where it is one
	show   func(v float64) string // shows the figure
	of     kind                   // which tables have it
	left   bool                   // aligned left
	bad    string                 // explains a column that is shown only if a row has a figure other than 0
	with   func(Row) bool         // a column that is shown only if it returns true for a row; nil: any
	many   bool                   // only tables of several items have it
	spare  spare                  // whether a drawn table that is too wide does without it
}

// spare says in which order a drawn table that is too wide does without columns.
type spare int

const (
	never  spare = iota
	ifZero       // first, if no row has a figure other than 0
	first        // then these,
	second       // these,
	third        // and these
)

// kind is a set of kinds of tables.
type kind int

const (
	sales kind = 1 << iota // all go at once
	opens                  // sales at a constant rate
	reads                  // of a cold key
	held                   // sales by holds
	all   = sales | opens | reads | held
)

func (m Manifest) kind() kind {
	switch {
	case catalog.Workload(m.Workload) == catalog.Cache:
		return reads
	case catalog.Workload(m.Workload) == catalog.Hold:
		return held
	case m.Rate > 0:
		return opens
	}
	return sales
}

// Titles of columns that are not shown by their figure alone.
const (
	titleRow      = ""
	titleOversold = "oversold"
	titleVerdict  = "verdict"
	titleWorst    = "worst item"
)

// columns are those of the report's rows.
func (r Report) columns() []column {
	var shown []column
	for _, c := range []column{
		{title: titleRow, of: all, left: true},
		{title: "planned", figure: "planned", show: whole, of: opens, spare: second},
		{title: "sent", figure: "sent", show: whole, of: opens},
		{title: "dropped", figure: "dropped", show: zeroIsDot, of: opens},
		{title: "holds", figure: "holds", show: whole, of: held},
		{title: "sold", figure: "sold", show: whole, of: sales | opens | held},
		{title: titleOversold, figure: "oversold", show: whole, of: sales | opens | held},
		{title: "stranded", figure: "stranded", show: zeroIsDot, of: held},
		{title: "lost", figure: "lost_updates", show: zeroIsDot, of: sales | opens, spare: third},
		{title: "undersold", figure: "undersold", show: zeroIsDot, of: sales | opens | held, spare: ifZero},
		{title: "charged", figure: "captures", show: whole, of: held},
		{title: "refunded", figure: "refunds", show: zeroIsDot, of: held},
		{title: "no order", figure: "charged_without_order", show: zeroIsDot, of: held},
		{title: "sellable s", figure: "sellable_after_s", show: hundredths, of: held},
		{title: "agrees s", figure: "agrees_after_s", show: hundredths, of: held},
		{title: "loads", figure: "db_loads", show: whole, of: reads},
		{title: "served", figure: "served", show: whole, of: reads | opens, spare: third},
		{title: "holders", figure: "max_holders", show: whole, of: sales | opens | reads},
		{title: "missing", figure: "acknowledged_missing", show: zeroIsDot, of: sales | opens | held,
			bad: "replies that do not match an order in the database"},
		{title: "unreported", figure: "unreported", show: zeroIsDot, of: sales | opens | held,
			bad: "orders that no buyer was told of, except those of buyers whose outcome is unknown"},
		{title: "duplicates", figure: "duplicates", show: zeroIsDot, of: sales | opens | held,
			bad: "orders beyond the first for one idempotency key"},
		{title: "not accepted", figure: "accepted_lost", show: zeroIsDot, of: sales | opens,
			bad: "orders that were accepted (202), and lost before they were written"},
		{title: "durable p99", figure: "durable_p99_ms", show: zeroIsDot, of: sales | opens,
			bad: "the time within which 99 of 100 accepted orders were written"},
		{title: "drained", figure: "drain_ms", show: zeroIsDot, of: sales | opens,
			bad: "the time from the last reply until all accepted orders were written"},
		{title: "agrees s", figure: "agrees_after_kill_s", show: hundredths, of: sales | opens,
			bad: "the seconds from the last kill until all accepted orders were written and the stock agreed with them"},
		{title: "sold out", figure: "sold_out", show: zeroIsDot, of: sales | opens | held, spare: third},
		{title: "failed", figure: "failed", show: zeroIsDot, of: all, spare: ifZero},
		{title: "unknown", figure: "unknown", show: zeroIsDot, of: all, spare: ifZero},
		{title: "p50", figure: "p50_ms", show: whole, of: sales | reads | held},
		{title: "p95", figure: "p95_ms", show: whole, of: sales | reads | held, spare: first},
		{title: "p99", figure: "p99_ms", show: whole, of: sales | reads | held},
		{title: "max", figure: "max_ms", show: whole, of: sales | reads | held, spare: second},
		{title: "response p50", figure: "p50_ms", show: tenths, of: opens},
		{title: "p99", figure: "p99_ms", show: tenths, of: opens},
		{title: "max", figure: "max_ms", show: tenths, of: opens, spare: second},
		{title: "service p50", figure: "service_p50_ms", show: tenths, of: opens},
		{title: "p99", figure: "service_p99_ms", show: tenths, of: opens},
		{title: "max", figure: "service_max_ms", show: tenths, of: opens, spare: second},
		{title: "cmds/req", figure: "redis_commands", show: tenths, of: sales | opens | reads, spare: third},
		{title: "conn ms/sale", figure: "connection_ms", show: tenths, of: sales | opens, with: Row.inDatabase,
			bad: "the time that the shops had connections to the database out of their pools, in ms per unit sold"},
		{title: "sent/s", figure: "achieved_rate", show: whole, of: opens, spare: third},
		{title: "sold/s", figure: "throughput", show: whole, of: sales | opens},
		{title: "reads/s", figure: "throughput", show: whole, of: reads},
		{title: "not ok", figure: "items_not_ok", show: zeroIsDot, of: sales | opens, many: true},
		{title: titleWorst, figure: "worst_item", show: whole, of: sales | opens, many: true},
		{title: "its oversold", figure: "worst_oversold", show: zeroIsDot, of: sales | opens, many: true},
		{title: "stranded", figure: "worst_stranded", show: zeroIsDot, of: sales | opens, many: true, spare: ifZero},
		{title: "its sold/s", figure: "worst_throughput", show: tenths, of: sales | opens, many: true},
		{title: titleVerdict, of: all, left: true},
	} {
		if c.many && r.Manifest.Items == 0 {
			continue
		}
		if c.of&r.Manifest.kind() != 0 && (c.bad == "" || r.any(c.figure)) && (c.with == nil || slices.ContainsFunc(r.Rows, c.with)) {
			shown = append(shown, c)
		}
	}
	return shown
}

// within returns the columns without as many of those that can be spared, up to the last order,
// as it takes until fits reports true, and the titles of those that it left out.
func (r Report) within(last spare, fits func([]column) bool) (shown []column, without []string) {
	var spared []func(column) bool
	for order := ifZero; order <= last; order++ {
		spared = append(spared, func(c column) bool { return c.spare == order && (order != ifZero || !r.any(c.figure)) })
	}
	shown, left := Fit(r.columns(), fits, spared...)
	for _, c := range left {
		without = append(without, c.title)
	}
	return shown, without
}

// any reports whether the figure of any row is not 0.
func (r Report) any(figure string) bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.figures()[figure] != 0 })
}

// inDatabase reports whether the row's strategy works in the database alone. Connections to
// it limit what such a strategy sells.
func (r Row) inDatabase() bool { return strings.HasPrefix(r.Strategy, "sql_") }

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }

// zeroIsDot shows a zero as a dot, so that the other figures stand out.
func zeroIsDot(v float64) string {
	if v == 0 {
		return "."
	}
	return whole(v)
}

// row is a row's text for the column.
func (c column) row(r Row, s Style) string {
	switch {
	case c.title == titleRow:
		return "  " + r.Strategy
	case c.title == titleVerdict && r.Expected:
		return s.Verdict(r.Verdict)
	case c.title == titleVerdict:
		return s.Verdict(r.Verdict) + " (!)"
	case c.title == titleWorst && r.Items != nil:
		return fmt.Sprintf("#%d", r.Items.Worst.Number)
	case c.title == titleOversold && r.OversoldPossible != r.Oversold:
		return fmt.Sprintf("%d..%d", r.Oversold, r.OversoldPossible)
	}
	v, known := r.figures()[c.figure]
	if !known {
		return ""
	}
	return c.show(v)
}

// median is a group's text for the column.
func (c column) median(g Group, s Style) string {
	switch c.title {
	case titleRow:
		return "  " + g.Strategy
	case titleVerdict:
		return g.Verdict(s)
	case titleWorst:
		return "" // another one in each run
	}
	e, known := g.Figures[c.figure]
	if !known {
		return ""
	}
	return c.show(e.Median)
}

// interval is a group's text for the column below its median, or "" if the runs do not
// differ. The interval of oversold includes what unknown outcomes leave open.
func (c column) interval(g Group) string {
	if c.figure == "" || c.title == titleWorst {
		return ""
	}
	e := g.Figures[c.figure]
	if c.title == titleOversold {
		e.High = max(e.High, g.Figures["oversold_possible"].High)
	}
	low, high := c.show(e.Low), c.show(e.High)
	if low == high && low == c.show(e.Median) {
		return ""
	}
	return undot(low) + ".." + undot(high)
}

// undot undoes zeroIsDot in an interval, which has dots of its own.
func undot(text string) string {
	if text == "." {
		return "0"
	}
	return text
}
