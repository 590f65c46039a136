package main

import (
	"fmt"
	"strings"

	"oversell/internal/bench/lockbench"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// lockGroup has the runs of one contender under one condition.
type lockGroup struct {
	Strategy   string           `json:"strategy"`
	Condition  string           `json:"condition"`
	Throughput figures.Estimate `json:"deducts_per_s"`
	Commands   figures.Estimate `json:"commands_per_deduct"`
	Spread     figures.Estimate `json:"wait_max_to_p50"`
	Jain       figures.Estimate `json:"jain"`

	runs []lockbench.Row
}

// groups groups the runs by row, in the order of their first runs. Skipped rows are left out.
func (r lockReport) groups() []lockGroup {
	var all []lockGroup
	at := make(map[string]int)
	for _, row := range r.Rows {
		if row.Skipped != "" {
			continue
		}
		key := row.Condition + " " + row.Strategy
		i, found := at[key]
		if !found {
			i = len(all)
			at[key] = i
			all = append(all, lockGroup{Strategy: row.Strategy, Condition: row.Condition})
		}
		all[i].runs = append(all[i].runs, row.Row)
	}
	for i := range all {
		all[i].estimate()
	}
	return all
}

func (g *lockGroup) estimate() {
	of := func(value func(lockbench.Row) float64) figures.Estimate {
		var values []float64
		for _, run := range g.runs {
			values = append(values, value(run))
		}
		return figures.MedianOf(values)
	}
	g.Throughput = of(func(r lockbench.Row) float64 { return r.Throughput })
	g.Commands = of(func(r lockbench.Row) float64 { return r.Commands })
	g.Spread = of(func(r lockbench.Row) float64 { return r.Spread })
	g.Jain = of(func(r lockbench.Row) float64 { return r.Jain })
}

// table draws a table for each condition and run, and the medians of several runs.
func (r lockReport) table(c crowd, s present.Style) string {
	var b strings.Builder
	m := r.Manifest
	fmt.Fprintf(&b, "%s\n%s%s%s\n%s\n",
		s.Sayf("%s for one lock, in %s; ttl %s, wait %s",
			s.Count(m.Requests, "contender"), s.Count(m.Instances, "process"), m.TTL, m.Wait),
		s.Sayf("redis: %s", s.Say(m.Redis)), s.Say("; "), s.Sayf("%s on %s, %d CPUs", m.Go, m.OS, m.CPUs), s.Say("waits in ms, from the common start"))
	for _, condition := range c.conditions {
		for round := range c.repeat {
			var rows []lockbench.Row
			for _, row := range r.Rows {
				if row.Condition == condition && row.Repeat == round+1 {
					rows = append(rows, row.Row)
				}
			}
			if len(rows) > 0 {
				title := s.Sayf("%s, run %d of %d", s.Condition(catalog.Condition(condition)), round+1, c.repeat)
				fmt.Fprintf(&b, "\n%s\n%s", title, lockbench.Table(rows, s))
			}
		}
	}
	if c.repeat > 1 {
		b.WriteString(r.medians(s))
	}
	if text := m.Unfinished(len(r.Rows), s); text != "" {
		b.WriteString("\n" + text)
	}
	return b.String()
}

// medians compares all contenders with the first one under the same condition.
func (r lockReport) medians(s present.Style) string {
	if len(r.Summary) == 0 {
		return ""
	}
	first := make(map[string]figures.Estimate)
	for _, g := range r.Summary {
		if _, known := first[g.Condition]; !known {
			first[g.Condition] = g.Throughput
		}
	}
	runs := r.Summary[0].Throughput.Runs
	t := present.Table[lockGroup]{Rows: r.Summary}
	t.Under = func(g lockGroup) string { return s.Condition(catalog.Condition(g.Condition)) }
	t.Add("", func(g lockGroup) string { return g.Strategy })
	t.Number("deducts/s", func(g lockGroup) string { return fmt.Sprintf("%.0f", g.Throughput.Median) })
	t.Add("", func(g lockGroup) string { return s.Sayf("%.0f to %.0f", g.Throughput.Low, g.Throughput.High) })
	t.Number("cmds/deduct", func(g lockGroup) string { return fmt.Sprintf("%.1f", g.Commands.Median) })
	t.Add("", func(g lockGroup) string { return g.against(first[g.Condition], s) })
	return "\n" + s.Sayf("medians of %d runs: deducts/s, with an interval of %.0f %%, and commands per deduct",
		runs, 100*figures.Confidence(runs)) + "\n" + t.Text(s)
}

// against compares the group's throughput with another's.
func (g lockGroup) against(first figures.Estimate, s present.Style) string {
	if g.Throughput == first || first.Median == 0 {
		return ""
	}
	ratio := s.Sayf("%.2f times the first", g.Throughput.Median/first.Median)
	switch g.Throughput.Differs(first) {
	case figures.None:
		return s.Say("no difference from the first")
	case figures.Unclear:
		return s.Sayf("%s, possibly by chance", ratio)
	}
	return ratio
}
