package lockbench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"oversell/internal/bench/report"
)

// column is one column of the table.
type column struct {
	title string
	value func(r Row) string
	left  bool // aligned left
}

func columns() []column {
	return []column{
		{title: "", value: func(r Row) string { return r.Contender }, left: true},
		{title: "served", value: func(r Row) string { return fmt.Sprint(r.Served) }},
		{title: "refused", value: func(r Row) string { return zeroIsDot(r.Told) }},
		{title: "never served", value: func(r Row) string { return zeroIsDot(r.NeverServed) }},
		{title: "killed", value: func(r Row) string { return zeroIsDot(r.Killed) }},
		{title: "deducts/s", value: func(r Row) string { return whole(r.Throughput) }},
		{title: "cmds/deduct", value: func(r Row) string { return fmt.Sprintf("%.1f", r.Commands) }},
		{title: "p50", value: func(r Row) string { return whole(r.P50) }},
		{title: "p99", value: func(r Row) string { return whole(r.P99) }},
		{title: "max", value: func(r Row) string { return whole(r.Max) }},
		{title: "max/p50", value: func(r Row) string { return hundredths(r.Spread) }},
		{title: "jain", value: func(r Row) string { return hundredths(r.Jain) }},
		{title: "holders", value: holders},
		{title: "lost", value: func(r Row) string { return zeroIsDot(r.LostUpdates) }},
		{title: "verdict", value: func(r Row) string { return string(r.Verdict) }, left: true},
	}
}

// zeroIsDot shows a zero as a dot, so that the other figures stand out.
func zeroIsDot(n int) string {
	if n == 0 {
		return "."
	}
	return fmt.Sprint(n)
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

func hundredths(v float64) string {
	if v == 0 {
		return "."
	}
	return fmt.Sprintf("%.2f", v)
}

// holders has the figure without the stopped holder in brackets.
func holders(r Row) string {
	if r.MaxHoldersRunning != r.MaxHolders {
		return fmt.Sprintf("%d (%d)", r.MaxHolders, r.MaxHoldersRunning)
	}
	return fmt.Sprint(r.MaxHolders)
}

// WriteTable writes the rows for a person: a line for each, and notes on faults, errors
// and skipped rows below. Waits are in milliseconds; a dot is a zero.
func WriteTable(w io.Writer, rows []Row) error {
	if _, err := io.WriteString(w, drawTable(rows)+notes(rows)); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

func drawTable(rows []Row) string {
	var heads []report.Head
	for _, c := range columns() {
		heads = append(heads, report.Head{Title: c.title, Left: c.left})
	}
	var lines [][]string
	for _, r := range rows {
		if r.Skipped == "" {
			lines = append(lines, cells(r))
		}
	}
	return report.Draw(heads, lines) + "\n"
}

func cells(r Row) []string {
	var row []string
	for _, c := range columns() {
		row = append(row, c.value(r))
	}
	return row
}

// notes lists what does not fit into a column.
func notes(rows []Row) string {
	var b strings.Builder
	for _, r := range rows {
		for _, note := range r.notes() {
			fmt.Fprintf(&b, "  %s: %s\n", r.Contender, note)
		}
	}
	return b.String()
}

func (r Row) notes() []string {
	var notes []string
	if r.Skipped != "" {
		return []string{r.Skipped}
	}
	if d := r.Disturbed; d != nil {
		notes = append(notes, d.note())
	}
	for _, text := range slices.Sorted(maps.Keys(r.Reasons)) {
		notes = append(notes, fmt.Sprintf("%d refused: %s", r.Reasons[text], text))
	}
	for _, text := range slices.Sorted(maps.Keys(r.Releases)) {
		notes = append(notes, fmt.Sprintf("%d releases failed: %s", r.Releases[text], text))
	}
	if r.Lost > 0 {
		notes = append(notes, fmt.Sprintf("%d leases had expired at their release", r.Lost))
	}
	if r.NeverServed > 0 {
		notes = append(notes, fmt.Sprintf("%d never served; the last release was %.0f ms before the end", r.NeverServed, r.Idle))
	}
	return notes
}

func (d Disturbed) note() string {
	var did []string
	if d.Killed > 0 {
		did = append(did, fmt.Sprintf("process %d was killed at %.0f ms", d.Killed, d.KilledAt))
	}
	if d.Stopped > 0 {
		did = append(did, fmt.Sprintf("process %d was stopped from %.0f to %.0f ms", d.Stopped, d.StoppedAt, d.Resumed))
	}
	if d.Missed != "" {
		did = append(did, d.Missed)
	}
	return cmp.Or(strings.Join(did, ", "), "no fault was injected")
}
