package main

import (
	"fmt"
	"io"
	"strings"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/lockbench"
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

// writeTable writes a table for each condition and run, and the medians of several runs.
func (r lockReport) writeTable(w io.Writer, c crowd, s report.Style) error {
	m := r.Manifest
	_, err := fmt.Fprintf(w, "%s\n%s%s%s\n%s\n",
		s.Sayf("%s for one lock, in %s; ttl %s, wait %s", s.Say(report.Plural(m.Requests, "contender")), s.Say(report.Plural(m.Instances, "process")), m.TTL, m.Wait),
		s.Sayf("redis: %s", s.Say(m.Redis)), s.Say("; "), s.Sayf("%s on %s, %d CPUs", m.Go, m.OS, m.CPUs), s.Say("waits in ms, from the common start"))
	for _, condition := range c.conditions {
		for round := range c.repeat {
			var rows []lockbench.Row
			for _, row := range r.Rows {
				if row.Condition == condition && row.Repeat == round+1 {
					rows = append(rows, row.Row)
				}
			}
			if len(rows) == 0 || err != nil {
				continue
			}
			if _, err = fmt.Fprintf(w, "\n%s\n", s.Sayf("%s, run %d of %d", s.Condition(catalog.Condition(condition)), round+1, c.repeat)); err == nil {
				err = lockbench.WriteTable(w, rows, s)
			}
		}
	}
	if err == nil && c.repeat > 1 {
		_, err = io.WriteString(w, r.medians(s))
	}
	if text := s.Unfinished(len(r.Rows), r.Manifest); err == nil && text != "" {
		_, err = io.WriteString(w, "\n"+text)
	}
	return err
}

// medians compares all contenders with the first one under the same condition.
func (r lockReport) medians(s report.Style) string {
	var b strings.Builder
	width := 0
	for _, g := range r.Summary {
		width = max(width, len(g.Strategy))
	}
	condition, first := "", figures.Estimate{}
	for _, g := range r.Summary {
		if g.Condition != condition {
			condition, first = g.Condition, g.Throughput
			b.WriteString("\n" + s.Sayf("%s, medians of %d runs: deducts/s, with an interval of %.0f %%, and commands per deduct",
				s.Condition(catalog.Condition(condition)), g.Throughput.Runs, 100*figures.Confidence(g.Throughput.Runs)) + "\n")
		}
		fmt.Fprintf(&b, "  %-*s  %8.0f  %s  %6.1f  %s\n", width, g.Strategy, g.Throughput.Median,
			s.Sayf("%6.0f to %6.0f", g.Throughput.Low, g.Throughput.High), g.Commands.Median, g.against(first, s))
	}
	return b.String()
}

// against compares the group's throughput with another's.
func (g lockGroup) against(first figures.Estimate, s report.Style) string {
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
