package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/locks"
)

// Conclusion says whether all came out as it must, what did not, which rows were
// run again, and whether any are missing.
func (r Report) Conclusion() string {
	return Unfinished(len(r.Rows), r.Manifest) + r.comparison() + r.undecided() + r.leases() + r.repeated()
}

// Unfinished tells a report that was cut short from one that is whole, also where
// nobody sees the error. It returns "" for a whole one, and a line otherwise.
func Unfinished(rows int, m Manifest) string {
	if rows >= m.Planned {
		return ""
	}
	what := "row"
	if m.Repeat > 1 {
		what = "run"
	}
	return fmt.Sprintf("Not finished: %d of %s done.\n", rows, plural(m.Planned, what))
}

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

// leases tells of the strategies whose servers do not give the lease that was asked for.
func (r Report) leases() string {
	var all []string
	for _, row := range r.Rows {
		asked := row.Condition == locks.Failover || len(row.Discarded) > 0 || r.Manifest.TTL == "" || row.TTL == "" || row.TTL == r.Manifest.TTL
		if text := row.Strategy + " " + row.TTL; !asked && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("Leases that the servers do not give with a ttl of %s, and what they give instead: %s.\n", r.Manifest.TTL, strings.Join(all, ", "))
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
	decided := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Undecided })
	what, some := plural(len(decided), "row"), len(decided) < len(r.Rows)
	if r.repeats() {
		of := Report{Rows: decided}
		what = fmt.Sprintf("%s of %s", plural(len(decided), "run"), plural(len(of.Groups()), "row"))
	}
	if some {
		what += " of which something is expected"
	}
	switch {
	case n == 0 && len(decided) == 0:
		return ""
	case n == 0 && len(r.Rows) == 1:
		return "The row came out as the catalog says it must.\n"
	case n == 0 && len(decided) == 1:
		return "The one row of which something is expected came out as the catalog says it must.\n"
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
