// Package compare tells what changed between two reports of the bench, or how
// the strategies of one differ: by the medians of their runs, and only where the
// runs show that it was not noise.
package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/bench"
	"oversell/internal/figures"
	"oversell/internal/locks"
)

// ErrDiffer means that two reports are of different things.
var ErrDiffer = errors.New("cannot be compared")

// File is a report, and what the file is called.
type File struct {
	Name string
	bench.Report
}

// setting is what two reports must agree in, or may differ in.
type setting struct {
	name string
	of   func(m bench.Manifest) any
}

// needed are the settings in which reports must agree: backends, versions and
// sizes. The version of oversell is none of them, since to compare two builds of
// it is what most comparisons are for.
func needed() []setting {
	return []setting{
		{"redis", func(m bench.Manifest) any { return m.Redis }},
		{"db", func(m bench.Manifest) any { return m.DB }},
		{"servers", func(m bench.Manifest) any { return strings.Join(m.Servers, "; ") }},
		{"go", func(m bench.Manifest) any { return m.Go }},
		{"format", func(m bench.Manifest) any { return m.Format }},
		{"workload", func(m bench.Manifest) any { return m.Workload }},
		{"requests", func(m bench.Manifest) any { return m.Requests }},
		{"rate", func(m bench.Manifest) any { return m.Rate }},
		{"duration", func(m bench.Manifest) any { return m.Duration }},
		{"in flight", func(m bench.Manifest) any { return m.InFlight }},
		{"stock", func(m bench.Manifest) any { return m.Stock }},
		{"instances", func(m bench.Manifest) any { return m.Instances }},
		{"ttl", func(m bench.Manifest) any { return m.TTL }},
		{"work", func(m bench.Manifest) any { return m.Work }},
		{"wait", func(m bench.Manifest) any { return m.Wait }},
		{"keys", func(m bench.Manifest) any { return m.Keys }},
		{"second look", func(m bench.Manifest) any { return m.SecondLook }},
		{"keeper", func(m bench.Manifest) any { return m.Keeper }},
		{"unfenced", func(m bench.Manifest) any { return m.Unfenced }},
	}
}

// told are the settings in which reports may differ, and which are told of.
func told() []setting {
	return []setting{
		{"oversell", func(m bench.Manifest) any { return m.Version }},
		{"retry", func(m bench.Manifest) any { return m.Retry }},
		{"os", func(m bench.Manifest) any { return m.OS }},
		{"cpus", func(m bench.Manifest) any { return m.CPUs }},
	}
}

// differing names the settings in which two manifests differ, with both values.
func differing(settings []setting, a, b bench.Manifest) string {
	var all []string
	for _, s := range settings {
		if x, y := s.of(a), s.of(b); x != y {
			all = append(all, fmt.Sprintf("%s (%v, %v)", s.name, x, y))
		}
	}
	return strings.Join(all, ", ")
}

// Comparison is two sets of runs, group by group.
type Comparison struct {
	Old, New File
	Pairs    []Pair
	Alone    []string // groups that only one of the reports has, in words
}

// Pair is two groups that are compared.
type Pair struct {
	Name     string // of the row
	Under    string // condition
	Old, New bench.Group
}

// Files compares the rows that both reports have. The error wraps ErrDiffer when
// they are of different backends, versions or sizes, or have no row in common.
func Files(older, newer File) (Comparison, error) {
	if diff := differing(needed(), older.Manifest, newer.Manifest); diff != "" {
		return Comparison{}, fmt.Errorf("%s and %s %w: they differ in %s", older.Name, newer.Name, ErrDiffer, diff)
	}
	c := Comparison{Old: older, New: newer}
	rest := newer.Groups()
	for _, g := range older.Groups() {
		i := slices.IndexFunc(rest, func(h bench.Group) bool { return h.Key() == g.Key() })
		if i < 0 {
			c.Alone = append(c.Alone, fmt.Sprintf("%s is only in %s", g.Key(), older.Name))
			continue
		}
		c.Pairs = append(c.Pairs, Pair{Name: g.Strategy, Under: string(g.Condition), Old: g, New: rest[i]})
		rest = slices.Delete(rest, i, i+1)
	}
	for _, g := range rest {
		c.Alone = append(c.Alone, fmt.Sprintf("%s is only in %s", g.Key(), newer.Name))
	}
	if len(c.Pairs) == 0 {
		return Comparison{}, fmt.Errorf("%s and %s %w: they have no row in common", older.Name, newer.Name, ErrDiffer)
	}
	return c, nil
}

// Strategies compares the strategies of one report, each to the first one under
// its condition. The error wraps ErrDiffer when there is but one.
func Strategies(f File) (Comparison, error) {
	first := make(map[bench.Key]bench.Group)
	c := Comparison{Old: f, New: f}
	for _, g := range f.Groups() {
		k := g.Key()
		k.Strategy = ""
		base, known := first[k]
		if !known {
			base, first[k] = g, g
		}
		c.Pairs = append(c.Pairs, Pair{Name: g.Strategy, Under: string(g.Condition), Old: base, New: g})
	}
	if len(c.Pairs) == len(first) {
		return Comparison{}, fmt.Errorf("the rows of %s %w: there is no condition with two strategies", f.Name, ErrDiffer)
	}
	return c, nil
}

// figure is one of those that are compared.
type figure struct {
	name   string // in a group
	title  string
	format string // of a value
}

func compared(m bench.Manifest) []figure {
	throughput, latency := "units sold a second", "latency"
	if locks.Workload(m.Workload) == locks.Cache {
		throughput = "values read a second"
	}
	if m.Rate > 0 {
		latency = "response time"
	}
	list := []figure{
		{"throughput", throughput, "%.0f"},
		{"p50_ms", "p50 of the " + latency + ", ms", "%.1f"},
		{"p99_ms", "p99 of the " + latency + ", ms", "%.1f"},
		{"redis_commands", "Redis commands a request", "%.2f"},
	}
	if m.Rate > 0 {
		list = append(list, figure{"dropped", "requests dropped", "%.0f"})
	}
	return list
}

func (p Pair) differs(f figure) figures.Difference {
	return p.Old.Figures[f.name].Differs(p.New.Figures[f.name])
}
