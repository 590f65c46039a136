package report

import (
	"fmt"
	"slices"
	"strings"

	"oversell/internal/catalog"
	"oversell/internal/present"
)

// column is a column that shows a figure.
type column struct {
	title  string
	figure string // the figure's name in JSON
	show   func(v float64) string
	of     kind   // the tables that have the column
	rare   string // explains a column that is shown only if one of its figures is not 0
	many   bool   // only tables with several items have the column
	spare  int    // see present.Column
}

// kind is a set of kinds of tables.
type kind int

const (
	sales kind = 1 << iota // all requests are sent at once
	opens                  // sales at a constant rate
	reads                  // of a cold key
	held                   // sales by holds
	locks                  // contenders for one lock
	all   = sales | opens | reads | held
)

func (m Manifest) kind() kind {
	switch {
	case catalog.Workload(m.Workload) == catalog.Cache:
		return reads
	case catalog.Workload(m.Workload) == catalog.Hold:
		return held
	case catalog.Workload(m.Workload) == WorkloadLock:
		return locks
	case m.Rate > 0:
		return opens
	}
	return sales
}

// figureColumns returns the columns that show a figure, in order.
func figureColumns() []column {
	return []column{
		{title: "planned", figure: "planned", show: whole, of: opens, spare: present.SecondSpare},
		{title: "sent", figure: "sent", show: whole, of: opens},
		{title: "dropped", figure: "dropped", show: zeroIsDot, of: opens},
		{title: "holds", figure: "holds", show: whole, of: held},
		{title: "sold", figure: "sold", show: whole, of: sales | opens | held},
		{title: "oversold", figure: "oversold", show: whole, of: sales | opens | held},
		{title: "stranded", figure: "stranded", show: zeroIsDot, of: held},
		{title: "lost", figure: "lost_updates", show: zeroIsDot, of: sales | opens, spare: present.ThirdSpare},
		{title: "undersold", figure: "undersold", show: zeroIsDot, of: sales | opens | held, spare: present.IfZero},
		{title: "charged", figure: "captures", show: whole, of: held},
		{title: "refunded", figure: "refunds", show: zeroIsDot, of: held},
		{title: "no order", figure: "charged_without_order", show: zeroIsDot, of: held},
		{title: "sellable s", figure: "sellable_after_s", show: hundredths, of: held},
		{title: "agrees s", figure: "agrees_after_s", show: hundredths, of: held},
		{title: "loads", figure: "db_loads", show: whole, of: reads},
		{title: "served", figure: "served", show: whole, of: reads | opens, spare: present.ThirdSpare},
		{title: "holders", figure: maxHolders, show: whole, of: sales | opens | reads},
		{title: "missing", figure: "acknowledged_missing", show: zeroIsDot, of: sales | opens | held,
			rare: "replies that do not match an order in the database"},
		{title: "unreported", figure: "unreported", show: zeroIsDot, of: sales | opens | held,
			rare: "orders that no buyer was told of, except those of buyers whose outcome is unknown"},
		{title: "duplicates", figure: "duplicates", show: zeroIsDot, of: sales | opens | held,
			rare: "orders beyond the first for one idempotency key"},
		{title: "not accepted", figure: "accepted_lost", show: zeroIsDot, of: sales | opens,
			rare: "orders that were accepted (202), and lost before they were written"},
		{title: "durable p99", figure: "durable_p99_ms", show: zeroIsDot, of: sales | opens,
			rare: "the time within which 99 of 100 accepted orders were written"},
		{title: "drained", figure: "drain_ms", show: zeroIsDot, of: sales | opens,
			rare: "the time from the last reply until all accepted orders were written"},
		{title: "agrees s", figure: "agrees_after_kill_s", show: hundredths, of: sales | opens,
			rare: "the seconds from the last kill until all accepted orders were written " +
				"and the stock agreed with them"},
		{title: "sold out", figure: "sold_out", show: zeroIsDot, of: sales | opens | held, spare: present.ThirdSpare},
		{title: "failed", figure: "failed", show: zeroIsDot, of: all, spare: present.IfZero},
		{title: "unknown", figure: "unknown", show: zeroIsDot, of: all, spare: present.IfZero},
		{title: "p50", figure: "p50_ms", show: whole, of: sales | reads | held},
		{title: "p95", figure: "p95_ms", show: whole, of: sales | reads | held, spare: present.FirstSpare},
		{title: "p99", figure: "p99_ms", show: whole, of: sales | reads | held},
		{title: "max", figure: "max_ms", show: whole, of: sales | reads | held, spare: present.SecondSpare},
		{title: "response p50", figure: "p50_ms", show: tenths, of: opens},
		{title: "p99", figure: "p99_ms", show: tenths, of: opens},
		{title: "max", figure: "max_ms", show: tenths, of: opens, spare: present.SecondSpare},
		{title: "service p50", figure: "service_p50_ms", show: tenths, of: opens},
		{title: "p99", figure: "service_p99_ms", show: tenths, of: opens},
		{title: "max", figure: "service_max_ms", show: tenths, of: opens, spare: present.SecondSpare},
		{title: "cmds/req", figure: "redis_commands", show: tenths, of: sales | opens | reads,
			spare: present.ThirdSpare},
		{title: "conn ms/sale", figure: connectionTime, show: tenths, of: sales | opens,
			rare: "the time that the shops had connections to the database out of their pools, in ms per unit sold"},
		{title: "sent/s", figure: "achieved_rate", show: whole, of: opens, spare: present.ThirdSpare},
		{title: "not ok", figure: "items_not_ok", show: zeroIsDot, of: sales | opens, many: true},
		{title: "worst item", figure: worstItem, of: sales | opens, many: true},
		{title: "its oversold", figure: "worst_oversold", show: zeroIsDot, of: sales | opens, many: true},
		{title: "stranded", figure: "worst_stranded", show: zeroIsDot, of: sales | opens, many: true,
			spare: present.IfZero},
		{title: "its sold/s", figure: "worst_throughput", show: tenths, of: sales | opens, many: true},
		{title: "sold/s", figure: "throughput", show: whole, of: sales | opens},
		{title: "reads/s", figure: "throughput", show: whole, of: reads},
		{title: "served", figure: "served", show: whole, of: locks},
		{title: "refused", figure: "told", show: zeroIsDot, of: locks, spare: present.ThirdSpare},
		{title: "never served", figure: "never_served", show: zeroIsDot, of: locks, spare: present.ThirdSpare},
		{title: "killed", figure: "killed", show: zeroIsDot, of: locks, spare: present.IfZero},
		{title: "deducts/s", figure: "deducts_per_s", show: whole, of: locks},
		{title: "cmds/deduct", figure: "commands_per_deduct", show: tenths, of: locks},
		{title: "p50", figure: "wait_p50_ms", show: whole, of: locks},
		{title: "p99", figure: "wait_p99_ms", show: whole, of: locks, spare: present.SecondSpare},
		{title: "max", figure: "wait_max_ms", show: whole, of: locks},
		{title: "max/p50", figure: "wait_max_to_p50", show: known, of: locks, spare: present.FirstSpare},
		{title: "jain", figure: "jain", show: known, of: locks, spare: present.SecondSpare},
		{title: "holders", figure: maxHolders, show: whole, of: locks},
		{title: "lost", figure: "lost_updates", show: zeroIsDot, of: locks, spare: present.IfZero},
	}
}

// Figures whose columns need special treatment.
const (
	oversold       = "oversold"      // its upper bound is oversold_possible
	worstItem      = "worst_item"    // only shown for a single run: each run has a different one
	maxHolders     = "max_holders"   // for a lock, the count without a stopped holder is added in brackets
	connectionTime = "connection_ms" // limits the sales of strategies that work in the database alone
)

// columns returns the columns that can appear in the report.
func (r Report) columns() []column {
	inDatabase := func(row Row) bool { return strings.HasPrefix(row.Strategy, "sql_") }
	return slices.DeleteFunc(figureColumns(), func(c column) bool {
		return c.of&r.Manifest.kind() == 0 || c.many && r.Manifest.Items == 0 ||
			c.figure == connectionTime && !slices.ContainsFunc(r.Rows, inDatabase)
	})
}

// Table returns the table of the report's rows, with a heading for each condition.
func (r Report) Table(s present.Style) present.Table[Line] {
	t := present.Table[Line]{Rows: r.lines(), Under: func(l Line) string { return r.heading(l.Condition, s) }}
	t.Columns = append(t.Columns, present.Column[Line]{Left: true, Cell: Line.name})
	for _, c := range r.columns() {
		of := present.Column[Line]{Name: c.title, Cell: c.cell, Rare: c.rare, Spare: c.spare}
		if c.figure == oversold {
			of.Mark = Line.oversold
		}
		t.Columns = append(t.Columns, of)
	}
	t.Columns = append(t.Columns, present.Column[Line]{
		Name: "verdict", Left: true, Cell: func(l Line) string { return l.verdict(s) }, Mark: Line.colours,
	})
	t.Columns = t.Filled()
	return t
}

// Line is one line of the table: the medians of a row, or the intervals below them.
type Line struct {
	Group
	Intervals bool
}

// lines returns a line for each row, followed by a line with intervals if the runs of the row
// differ.
func (r Report) lines() []Line {
	var all []Line
	columns := r.columns()
	for _, g := range r.groups() {
		all = append(all, Line{Group: g})
		below := Line{g, true}
		if g.Runs > 1 && slices.ContainsFunc(columns, func(c column) bool { return c.cell(below) != "" }) {
			all = append(all, below)
		}
	}
	return all
}

func (l Line) name() string {
	if l.Intervals {
		return ""
	}
	return l.Strategy
}

func (l Line) verdict(s present.Style) string {
	if l.Intervals {
		return ""
	}
	return l.Verdict(s)
}

// cell returns the median, or in a line of intervals the interval, which is "" if all runs are
// equal. For a single run whose unknown outcomes leave the figure open, it returns the possible
// range instead of the median.
func (c column) cell(l Line) string {
	if c.figure == worstItem && l.Runs == 1 && l.Rows[0].Items != nil {
		return fmt.Sprintf("#%d", l.Rows[0].Items.Worst.Number)
	}
	e, found := l.Figures[c.figure]
	if !found {
		return ""
	}
	if c.figure == oversold {
		e.High = max(e.High, l.Figures["oversold_possible"].High)
	}
	if lock := l.Rows[0].Lock; lock != nil && c.figure == maxHolders {
		return lock.holders()
	}
	low, median, high := c.show(e.Low), c.show(e.Median), c.show(e.High)
	differ := low != high || low != median
	switch {
	case differ && (l.Intervals || l.Runs == 1):
		return undot(low) + ".." + undot(high)
	case l.Intervals:
		return ""
	}
	return median
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

func hundredths(v float64) string { return fmt.Sprintf("%.2f", v) }

func tenths(v float64) string { return fmt.Sprintf("%.1f", v) }

// zeroIsDot shows a zero as a dot, so that the other figures stand out.
func zeroIsDot(v float64) string {
	if v == 0 {
		return present.Zero
	}
	return whole(v)
}

// known shows a ratio; zero means that it is not known.
func known(v float64) string {
	if v == 0 {
		return present.Zero
	}
	return hundredths(v)
}

// undot undoes zeroIsDot in an interval, which already contains dots.
func undot(text string) string {
	if text == present.Zero {
		return "0"
	}
	return text
}
