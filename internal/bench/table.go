package bench

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/figures"
	"oversell/internal/locks"
)

// WriteTable writes the report for a person: what it ran on, a line for each
// row, and what did not come out as it must. With colour it colours verdicts.
func (r Report) WriteTable(w io.Writer, colour bool) error {
	var out strings.Builder
	out.WriteString(r.Manifest.header())
	out.WriteString(drawTable(r, colour))
	out.WriteString("\n")
	out.WriteString(r.summary())
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("writing the report's table: %w", err)
	}
	return nil
}

// header says what the figures were made with.
func (m Manifest) header() string {
	shops := fmt.Sprintf("%d instances", m.Instances)
	if len(m.Targets) > 0 {
		shops = "shops at " + strings.Join(m.Targets, ", ")
	}
	var b strings.Builder
	if m.Workload == string(locks.Cache) {
		fmt.Fprintf(&b, "%d concurrent readers of a cold key, %s", m.Requests, shops)
		if !m.SecondLook {
			b.WriteString(", without the second look")
		}
	} else {
		fmt.Fprintf(&b, "%d concurrent buyers, %d units, %s", m.Requests, m.Stock, shops)
	}
	if len(m.Targets) == 0 {
		fmt.Fprintf(&b, "; ttl %s, work %s, wait %s, retry %s", m.TTL, m.Work, m.Wait, m.Retry)
	}
	b.WriteString("\n")
	fmt.Fprintf(&b, "redis: %s; db: %s; %s on %s, %d CPUs\n", m.Redis, m.DB, m.Go, m.OS, m.CPUs)
	b.WriteString("latencies in ms, from the moment all were let go to each one's outcome\n\n")
	return b.String()
}

// column is one column of the table, and the workloads that have it.
type column struct {
	title string
	value func(r Row) any
	only  locks.Workload // "": all
	left  bool           // aligned left
}

// Titles that decide about colour.
const (
	titleOversold = "oversold"
	titleVerdict  = "verdict"
)

func columns() []column {
	return []column{
		{title: "", value: func(r Row) any { return "  " + r.Strategy }, left: true},
		{title: "sold", value: func(r Row) any { return r.Sold }, only: locks.Deduct},
		{title: titleOversold, value: oversold, only: locks.Deduct},
		{title: "lost", value: func(r Row) any { return zeroIsDot(r.LostUpdates) }, only: locks.Deduct},
		{title: "undersold", value: func(r Row) any { return zeroIsDot(r.Undersold) }, only: locks.Deduct},
		{title: "loads", value: func(r Row) any { return r.DBLoads }, only: locks.Cache},
		{title: "served", value: func(r Row) any { return r.Served }, only: locks.Cache},
		{title: "holders", value: func(r Row) any { return r.MaxHolders }},
		{title: "sold out", value: func(r Row) any { return zeroIsDot(r.SoldOut) }, only: locks.Deduct},
		{title: "failed", value: func(r Row) any { return zeroIsDot(r.Failed) }},
		{title: "unknown", value: func(r Row) any { return zeroIsDot(r.Unknown) }},
		{title: "p50", value: func(r Row) any { return ms(r.P50) }},
		{title: "p95", value: func(r Row) any { return ms(r.P95) }},
		{title: "p99", value: func(r Row) any { return ms(r.P99) }},
		{title: "max", value: func(r Row) any { return ms(r.Max) }},
		{title: "cmds/req", value: func(r Row) any { return fmt.Sprintf("%.1f", r.RedisCommands) }},
		{title: "sold/s", value: func(r Row) any { return fmt.Sprintf("%.0f", r.Throughput) }, only: locks.Deduct},
		{title: "reads/s", value: func(r Row) any { return fmt.Sprintf("%.0f", r.Throughput) }, only: locks.Cache},
		{title: titleVerdict, value: verdict, left: true},
	}
}

// oversold is a number, or an interval where unknown outcomes leave it open.
func oversold(r Row) any {
	if r.OversoldPossible != r.Oversold {
		return fmt.Sprintf("%d..%d", r.Oversold, r.OversoldPossible)
	}
	return r.Oversold
}

// zeroIsDot keeps what did not happen from drawing the eye.
func zeroIsDot(n int64) any {
	if n == 0 {
		return "."
	}
	return n
}

func ms(v float64) string { return fmt.Sprintf("%.0f", v) }

// verdict is marked when it is not the one that must come out.
func verdict(r Row) any {
	if r.Expected {
		return r.Verdict
	}
	return string(r.Verdict) + " (!)"
}

// drawTable draws the rows, a block for each condition.
func drawTable(r Report, colour bool) string {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Format.Header = text.FormatDefault
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	var shown []column
	var header table.Row
	var configs []table.ColumnConfig
	for _, c := range columns() {
		if c.only != "" && c.only != locks.Workload(r.Manifest.Workload) {
			continue
		}
		shown = append(shown, c)
		header = append(header, c.title)
		align := text.AlignRight
		if c.left {
			align = text.AlignLeft
		}
		configs = append(configs, table.ColumnConfig{Number: len(shown), Align: align, AlignHeader: align})
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for i, row := range r.Rows {
		if i == 0 || row.Condition != r.Rows[i-1].Condition {
			t.AppendRow(table.Row{string(row.Condition)})
		}
		t.AppendRow(cells(shown, row, colour))
	}
	return t.Render() + "\n"
}

func cells(shown []column, row Row, colour bool) table.Row {
	out := make(table.Row, len(shown))
	for i, c := range shown {
		out[i] = fmt.Sprint(c.value(row))
		switch {
		case !colour:
		case c.title == titleVerdict:
			out[i] = verdictColours(row).Sprint(out[i])
		case c.title == titleOversold && row.Oversold > 0:
			out[i] = text.FgRed.Sprint(out[i])
		}
	}
	return out
}

func verdictColours(row Row) text.Colors {
	colours := text.Colors{verdictColour(row.Verdict)}
	if !row.Expected {
		colours = append(colours, text.Bold, text.ReverseVideo)
	}
	return colours
}

func verdictColour(v figures.Verdict) text.Color {
	switch v {
	case figures.OK:
		return text.FgGreen
	case figures.Oversold, figures.Stuck:
		return text.FgRed
	}
	return text.FgYellow
}

// summary says whether all came out as it must, what did not, and which rows
// were run again.
func (r Report) summary() string { return r.comparison() + r.repeated() }

// repeated tells of the rows that were run again, so that nothing is discarded
// in silence.
func (r Report) repeated() string {
	var b strings.Builder
	for _, row := range r.Rows {
		for _, d := range row.Discarded {
			fmt.Fprintf(&b, "  %s under %s: %s; a process stood still for %.0f ms, with a ttl of %s\n",
				row.Strategy, row.Condition, cmp.Or(d.Differs, "verdict "+string(d.Verdict)), d.Stalled, d.TTL)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("Run again with twice the ttl, since the machine stood still for more than a fifth of it:\n%s", b.String())
}

func (r Report) comparison() string {
	var wrong strings.Builder
	n := 0
	for _, row := range r.Rows {
		if !row.Expected {
			n++
			fmt.Fprintf(&wrong, "  %s under %s: %s\n", row.Strategy, row.Condition, row.Differs)
		}
	}
	switch {
	case n == 0 && len(r.Rows) == 1:
		return "The row came out as the catalog says it must.\n"
	case n == 0:
		return fmt.Sprintf("All %d rows came out as the catalog says they must.\n", len(r.Rows))
	}
	if len(r.Rows) == 1 {
		return "The row did not come out as the catalog says it must:\n" + wrong.String()
	}
	return fmt.Sprintf("%d of %d rows did not come out as the catalog says they must:\n%s", n, len(r.Rows), wrong.String())
}
