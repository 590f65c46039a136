package lockbench

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"oversell/internal/bench/report"
	"oversell/internal/figures"
)

// They explain the verdict of that name.
const (
	notComparable        = "not comparable here: %s"
	notComparableBecause = "These locks were written for a real Redis, and their waiters fare worse on an embedded one: use -redis local."
)

// column is one column of the table.
type column struct {
	title string
	value func(r Row) string
	left  bool  // aligned left
	spare spare // when a table that is too wide does without it
}

// spare says in which order a table that is too wide does without a column.
type spare int

const (
	never spare = iota // unless it is a dot in all rows: such a column goes first
	first
	second
	last // the notes have it
)

func columns(s report.Style) []column {
	return []column{
		{title: "", value: func(r Row) string { return r.Contender }, left: true},
		{title: "served", value: func(r Row) string { return fmt.Sprint(r.Served) }},
		{title: "refused", value: func(r Row) string { return zeroIsDot(r.Told) }, spare: last},
		{title: "never served", value: func(r Row) string { return zeroIsDot(r.NeverServed) }, spare: last},
		{title: "killed", value: func(r Row) string { return zeroIsDot(r.Killed) }},
		{title: "deducts/s", value: func(r Row) string { return whole(r.Throughput) }},
		{title: "cmds/deduct", value: func(r Row) string { return fmt.Sprintf("%.1f", r.Commands) }},
		{title: "p50", value: func(r Row) string { return whole(r.P50) }},
		{title: "p99", value: func(r Row) string { return whole(r.P99) }, spare: second},
		{title: "max", value: func(r Row) string { return whole(r.Max) }},
		{title: "max/p50", value: func(r Row) string { return hundredths(r.Spread) }, spare: first},
		{title: "jain", value: func(r Row) string { return hundredths(r.Jain) }, spare: second},
		{title: "holders", value: holders},
		{title: "lost", value: func(r Row) string { return zeroIsDot(r.LostUpdates) }},
		{title: "verdict", value: func(r Row) string { return s.Verdict(figures.Verdict(r.Verdict)) }, left: true},
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
func WriteTable(w io.Writer, rows []Row, s report.Style) error {
	if _, err := io.WriteString(w, drawTable(rows, s)+notes(rows, s)); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// drawTable draws the rows that were run. A table that is too wide does without some columns,
// and names them.
func drawTable(rows []Row, s report.Style) string {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Skipped != "" })
	spared := []func(column) bool{func(c column) bool { return c.zero(rows) }}
	for order := first; order <= last; order++ {
		spared = append(spared, func(c column) bool { return c.spare == order })
	}
	shown, left := report.Fit(columns(s), func(shown []column) bool { return text.LongestLineLen(draw(shown, rows, s)) <= report.MaxWidth }, spared...)
	drawn := draw(shown, rows, s)
	if len(left) > 0 {
		without := make([]string, len(left))
		for i, c := range left {
			without[i] = s.Title(c.title)
		}
		drawn += "\n" + s.Sayf("left out to fit the width: %s (-json has them)", strings.Join(without, s.Say(", ")))
	}
	return drawn + "\n"
}

// zero reports whether the column is a dot in all rows.
func (c column) zero(rows []Row) bool {
	return !slices.ContainsFunc(rows, func(r Row) bool { return c.value(r) != zeroIsDot(0) })
}

// draw draws the rows with the columns. A title of two words takes two lines.
func draw(shown []column, rows []Row, s report.Style) string {
	heads := make([]report.Head, len(shown))
	breaks := strings.NewReplacer(" ", "\n", "/", "\n/")
	for i, c := range shown {
		heads[i] = report.Head{Title: breaks.Replace(s.Say(c.title)), Left: c.left}
	}
	lines := make([][]string, len(rows))
	for i, r := range rows {
		for _, c := range shown {
			lines[i] = append(lines[i], c.value(r))
		}
	}
	return report.Draw(heads, lines)
}

// notes lists what does not fit into a column.
func notes(rows []Row, s report.Style) string {
	var b strings.Builder
	for _, r := range rows {
		for _, note := range r.notes(s) {
			b.WriteString("  " + s.Sayf("%s: %s", r.Contender, note) + "\n")
		}
	}
	var incomparable []string
	for _, r := range rows {
		if r.Verdict == NotComparable {
			incomparable = append(incomparable, r.Contender)
		}
	}
	if len(incomparable) > 0 {
		b.WriteString("  " + s.Sayf(notComparable, strings.Join(incomparable, s.Say(", "))) + "\n  " + s.Say(notComparableBecause) + "\n")
	}
	return b.String()
}

// notes says what happened to a row. Errors are in English, as programs return them.
func (r Row) notes(s report.Style) []string {
	var notes []string
	if r.Skipped != "" {
		return []string{r.Skipped}
	}
	if d := r.Disturbed; d != nil {
		notes = append(notes, d.note(s))
	}
	for _, text := range slices.Sorted(maps.Keys(r.Reasons)) {
		notes = append(notes, s.Sayf("%d refused: %s", r.Reasons[text], text))
	}
	for _, text := range slices.Sorted(maps.Keys(r.Releases)) {
		notes = append(notes, s.Sayf("%d releases failed: %s", r.Releases[text], text))
	}
	if r.Lost > 0 {
		notes = append(notes, s.Sayf("%d leases had expired at their release", r.Lost))
	}
	if r.NeverServed > 0 {
		notes = append(notes, s.Sayf("%d never served; the last release was %.0f ms before the end", r.NeverServed, r.Idle))
	}
	return notes
}

func (d Disturbed) note(s report.Style) string {
	var did []string
	if d.Killed > 0 {
		did = append(did, s.Sayf("process %d was killed at %.0f ms", d.Killed, d.KilledAt))
	}
	if d.Stopped > 0 {
		did = append(did, s.Sayf("process %d was stopped from %.0f to %.0f ms", d.Stopped, d.StoppedAt, d.Resumed))
	}
	if d.Missed != "" {
		did = append(did, d.Missed)
	}
	return cmp.Or(strings.Join(did, s.Say(", ")), s.Say("no fault was injected"))
}
