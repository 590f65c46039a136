package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Conclusion says whether all came out as it must, what did not, and which rows
// were run again.
func (r Report) Conclusion() string { return r.comparison() + r.undecided() + r.repeated() }

// undecided names the strategies of which nothing is expected.
func (r Report) undecided() string {
	var names []string
	for _, row := range r.Rows {
		if row.Undecided && !slices.Contains(names, row.Strategy) {
			names = append(names, row.Strategy)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("Of %s nothing is expected: whom the locks of others serve of a crowd is left to chance.\n", strings.Join(names, ", "))
}

// repeated tells of the rows that were run again, so that nothing is discarded
// in silence.
func (r Report) repeated() string {
	var b strings.Builder
	for _, row := range r.Rows {
		for _, d := range row.Discarded {
			fmt.Fprintf(&b, "  %s: %s; a process stood still for %.0f ms, with a ttl of %s\n",
				r.name(row), cmp.Or(d.Differs, "verdict "+string(d.Verdict)), d.Stalled, d.TTL)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return fmt.Sprintf("Run again with twice the ttl, since the machine stood still for more than a fifth of it:\n%s", b.String())
}

// name names a row, and its run where there are several.
func (r Report) name(row Row) string {
	name := Key{row.Strategy, row.Condition, row.Workload}.String()
	if r.repeats() {
		name += fmt.Sprintf(", run %d", row.Repeat)
	}
	return name
}

// repeats reports whether any row was repeated.
func (r Report) repeats() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Repeat > 1 })
}

func (r Report) comparison() string {
	var wrong strings.Builder
	n := 0
	for _, row := range r.Rows {
		if !row.Expected {
			n++
			fmt.Fprintf(&wrong, "  %s: %s\n", r.name(row), row.Differs)
		}
	}
	what := fmt.Sprintf("%d rows", len(r.Rows))
	if r.repeats() {
		what = fmt.Sprintf("%d runs of %s", len(r.Rows), plural(len(r.Groups()), "row"))
	}
	switch {
	case n == 0 && len(r.Rows) == 1:
		return "The row came out as the catalog says it must.\n"
	case n == 0:
		return fmt.Sprintf("All %s came out as the catalog says they must.\n", what)
	case len(r.Rows) == 1:
		return "The row did not come out as the catalog says it must:\n" + wrong.String()
	}
	return fmt.Sprintf("%d of %s did not come out as the catalog says they must:\n%s", n, what, wrong.String())
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
