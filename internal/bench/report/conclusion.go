package report

import (
	"slices"
	"strings"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// Conclusion says which rows are missing, have no expectation or were run again, and whether the
// others matched the catalog's expectations.
func (r Report) Conclusion(s present.Style) string {
	text := r.Manifest.unfinished(len(r.Rows), s)
	if r.ofLocks() {
		return text + r.repeated(s) // the catalog has no expectations for locks
	}
	text += r.undecided(s)
	for _, part := range r.Parts() {
		text += part.leases(s)
	}
	return text + r.repeated(s) + r.expectations(s)
}

// unfinished returns a line that says how many rows are missing from a report that was
// cut short, and "" for a complete one.
func (m Manifest) unfinished(rows int, s present.Style) string {
	planned := m.Planned
	for _, also := range m.Also {
		planned += also.Planned
	}
	if rows >= planned {
		return ""
	}
	what := "row"
	if m.Repeat > 1 {
		what = "run"
	}
	return s.Sayf("Not finished: %d of %s done.", rows, s.Count(planned, what)) + "\n"
}

// undecided names the strategies without an expectation in the catalog, and those whose rows have
// no verdict.
func (r Report) undecided(s present.Style) string {
	var open, incomparable []string
	for _, row := range r.Rows {
		switch {
		case row.Verdict == figures.NotComparable:
			incomparable = append(incomparable, row.Strategy)
		case row.Undecided:
			open = append(open, row.Strategy)
		}
	}
	text := ""
	if names := distinct(open, s); names != "" {
		text = s.Sayf("No expectation for %s: which waiters these locks serve is left to chance.", names) + "\n"
	}
	if names := distinct(incomparable, s); names != "" {
		text += s.Sayf("Not comparable here: %s. These locks were written for a real Redis, and their waiters fare "+
			"worse on an\nembedded one: use -redis local.", names) + "\n"
	}
	return text
}

// distinct sorts the names, removes duplicates, and joins the rest with commas.
func distinct(names []string, s present.Style) string {
	slices.Sort(names)
	return strings.Join(slices.Compact(names), s.Say(", "))
}

// leases names the strategies whose servers granted a different lease from the one requested.
func (r Report) leases(s present.Style) string {
	var all []string
	for _, row := range r.Rows {
		asked := row.Condition == catalog.Failover || len(row.Discarded) > 0 || r.Manifest.TTL == "" || row.TTL == "" ||
			row.TTL == r.Manifest.TTL
		if text := row.Strategy + " " + row.TTL; !asked && !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return s.Sayf("Servers that cannot grant a ttl of %s, and the ttl they granted: %s.", r.Manifest.TTL,
		strings.Join(all, s.Say(", "))) + "\n"
}

// repeated lists the rows that were run again, so that no run is discarded silently.
func (r Report) repeated(s present.Style) string {
	var b strings.Builder
	for _, row := range r.Rows {
		for _, d := range row.Discarded {
			reason := s.Sayf("a process stalled for %.0f ms, with a ttl of %s", d.Stalled, d.TTL)
			if d.Missed {
				reason = s.Say("a fault was not injected")
			}
			differs := s.Tell(d.Differs, d.Message)
			if differs == "" {
				differs = s.Sayf("verdict %s", s.Say(string(d.Verdict)))
			}
			b.WriteString("  " + s.Sayf("%s: %s; %s", r.name(row, s), differs, reason) + "\n")
		}
	}
	if b.Len() == 0 {
		return ""
	}
	why := "Run again with twice the ttl, because a process stalled or a fault was not injected:"
	if r.ofLocks() {
		why = "Run again, because a fault was not injected:"
	}
	return s.Say(why) + "\n" + b.String()
}

// name returns the name of a row, with the number of its run if rows were repeated.
func (r Report) name(row Row, s present.Style) string {
	name := row.in(s)
	if r.repeats() {
		name += s.Sayf(", run %d", row.Repeat)
	}
	return name
}

// repeats reports whether any row was repeated.
func (r Report) repeats() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Repeat > 1 })
}

// expectations compares the rows with the catalog.
func (r Report) expectations(s present.Style) string {
	var wrong strings.Builder
	n := 0
	for _, row := range r.Rows {
		if !row.Expected {
			n++
			wrong.WriteString("  " + s.Sayf("%s: %s", r.name(row, s), s.Tell(row.Differs, row.Message)) + "\n")
		}
	}
	decided := slices.DeleteFunc(slices.Clone(r.Rows), func(row Row) bool { return row.Undecided })
	what, some := s.Count(len(decided), "row"), len(decided) < len(r.Rows)
	if r.repeats() {
		of := Report{Rows: decided}
		what = s.Sayf("%s of %s", s.Count(len(decided), "run"), s.Count(len(of.groups()), "row"))
	}
	if some {
		what = s.Sayf("%s with an expectation", what)
	}
	switch {
	case n == 0 && len(decided) == 0:
		return ""
	case n == 0 && len(r.Rows) == 1:
		return s.Say("The row matched the catalog's expectation.") + "\n"
	case n == 0 && len(decided) == 1:
		return s.Say("The one row with an expectation matched it.") + "\n"
	case n == 0:
		return s.Sayf("All %s matched the catalog's expectations.", what) + "\n"
	case len(r.Rows) == 1:
		return s.Say("The row did not match the catalog's expectation:") + "\n" + wrong.String()
	}
	return s.Sayf("%d of %s did not match the catalog's expectations:", n, what) + "\n" + wrong.String()
}
