package lockbench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"oversell/internal/figures"
	"oversell/internal/present"
)

// They explain the verdict of that name.
const (
	notComparable        = "not comparable here: %s"
	notComparableBecause = "These locks were written for a real Redis, and their waiters fare worse on an embedded one: use -redis local."
)

func columns(s present.Style) []present.Column[Row] {
	return []present.Column[Row]{
		{Left: true, Cell: func(r Row) string { return r.Contender }},
		{Name: "served", Cell: func(r Row) string { return fmt.Sprint(r.Served) }},
		{Name: "refused", Cell: func(r Row) string { return zeroIsDot(r.Told) }, Spare: present.ThirdSpare},
		{Name: "never served", Cell: func(r Row) string { return zeroIsDot(r.NeverServed) }, Spare: present.ThirdSpare},
		{Name: "killed", Cell: func(r Row) string { return zeroIsDot(r.Killed) }, Spare: present.IfZero},
		{Name: "deducts/s", Cell: func(r Row) string { return whole(r.Throughput) }},
		{Name: "cmds/deduct", Cell: func(r Row) string { return fmt.Sprintf("%.1f", r.Commands) }},
		{Name: "p50", Cell: func(r Row) string { return whole(r.P50) }},
		{Name: "p99", Cell: func(r Row) string { return whole(r.P99) }, Spare: present.SecondSpare},
		{Name: "max", Cell: func(r Row) string { return whole(r.Max) }},
		{Name: "max/p50", Cell: func(r Row) string { return hundredths(r.Spread) }, Spare: present.FirstSpare},
		{Name: "jain", Cell: func(r Row) string { return hundredths(r.Jain) }, Spare: present.SecondSpare},
		{Name: "holders", Cell: holders},
		{Name: "lost", Cell: func(r Row) string { return zeroIsDot(r.LostUpdates) }, Spare: present.IfZero},
		{Name: "verdict", Cell: func(r Row) string { return s.Verdict(figures.Verdict(r.Verdict)) }, Left: true},
	}
}

// zeroIsDot shows a zero as a dot, so that the other figures stand out.
func zeroIsDot(n int) string {
	if n == 0 {
		return present.Zero
	}
	return fmt.Sprint(n)
}

func whole(v float64) string { return fmt.Sprintf("%.0f", v) }

func hundredths(v float64) string {
	if v == 0 {
		return present.Zero
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

// Table draws the rows for a person: a line for each that was run, and notes on faults, errors and
// skipped rows below. Waits are in milliseconds; a dot is a zero.
func Table(rows []Row, s present.Style) string {
	ran := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Skipped != "" })
	return present.Table[Row]{Columns: columns(s), Rows: ran}.Text(s) + notes(rows, s)
}

// notes lists what does not fit into a column.
func notes(rows []Row, s present.Style) string {
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
func (r Row) notes(s present.Style) []string {
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

func (d Disturbed) note(s present.Style) string {
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
