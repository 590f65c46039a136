package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"oversell/internal/figures"
)

// ErrDiffer means that two reports cannot be compared.
var ErrDiffer = errors.New("cannot be compared")

// File is a report and the name of its file.
type File struct {
	Name string
	Report
}

// setting is what two reports must agree in, or may differ in.
type setting struct {
	name string
	of   func(m Manifest) any
}

// mustAgree lists the settings in which reports must agree: backends, versions and
// sizes. The version of oversell is not one of them: most comparisons are of two builds.
func mustAgree() []setting {
	return []setting{
		{"redis", func(m Manifest) any { return m.Redis }},
		{"db", func(m Manifest) any { return m.DB }},
		{"servers", func(m Manifest) any { return strings.Join(m.Servers, "; ") }},
		{"go", func(m Manifest) any { return m.Go }},
		{"format", func(m Manifest) any { return m.Format }},
		{"workload", func(m Manifest) any { return m.Workload }},
		{"requests", func(m Manifest) any { return m.Requests }},
		{"rate", func(m Manifest) any { return m.Rate }},
		{"duration", func(m Manifest) any { return m.Duration }},
		{"in flight", func(m Manifest) any { return m.InFlight }},
		{"stock", func(m Manifest) any { return m.Stock }},
		{"items", func(m Manifest) any { return max(1, m.Items) }},
		{"skew", func(m Manifest) any { return m.Skew }},
		{"seed of who buys which item", func(m Manifest) any { return m.spreadSeed() }},
		{"instances", func(m Manifest) any { return m.Instances }},
		{"ttl", func(m Manifest) any { return m.TTL }},
		{"work", func(m Manifest) any { return m.Work }},
		{"wait", func(m Manifest) any { return m.Wait }},
		{"keys", func(m Manifest) any { return m.Keys }},
		{"second look", func(m Manifest) any { return m.SecondLook }},
		{"keeper", func(m Manifest) any { return m.Keeper }},
		{"unfenced", func(m Manifest) any { return m.Unfenced }},
		{"replicas", func(m Manifest) any { return m.Replicas }},
	}
}

// mayDiffer lists the settings in which reports may differ; the differences are shown.
func mayDiffer() []setting {
	return []setting{
		{"oversell", func(m Manifest) any { return m.Version }},
		{"retry", func(m Manifest) any { return m.Retry }},
		{"os", func(m Manifest) any { return m.OS }},
		{"cpus", func(m Manifest) any { return m.CPUs }},
	}
}

// spreadSeed is the seed of who buys which item, or 0 if there is one item.
func (m Manifest) spreadSeed() uint64 {
	if m.Items == 0 {
		return 0
	}
	return m.Seed
}

// differing names the settings in which two manifests differ, with both values.
func differing(settings []setting, a, b Manifest) string {
	var all []string
	for _, s := range settings {
		if x, y := s.of(a), s.of(b); x != y {
			all = append(all, fmt.Sprintf("%s (%v, %v)", s.name, x, y))
		}
	}
	return strings.Join(all, ", ")
}

// Comparison pairs the rows of two reports, or of the strategies in one.
type Comparison struct {
	Old, New File
	Pairs    []Pair
	Alone    []string // says which groups are only in one of the reports
}

// Pair is two groups to compare.
type Pair struct {
	Name     string // of the row
	Under    string // condition
	Old, New Group
}

// CompareFiles compares the rows that both reports have. The error wraps ErrDiffer when
// they are of different backends, versions or sizes, or have no row in common.
func CompareFiles(older, newer File) (Comparison, error) {
	if diff := disagree(older.Report, newer.Report); diff != "" {
		return Comparison{}, fmt.Errorf("%s and %s %w: they differ in %s", older.Name, newer.Name, ErrDiffer, diff)
	}
	c := Comparison{Old: older, New: newer}
	rest := newer.Groups()
	for _, g := range older.Groups() {
		i := slices.IndexFunc(rest, func(h Group) bool { return h.Key() == g.Key() })
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

// disagree names the settings in which the parts of the same workload must agree and do not.
// If no workload is in both reports, that is what they differ in.
func disagree(a, b Report) string {
	common := false
	for _, x := range a.Parts() {
		for _, y := range b.Parts() {
			if x.Manifest.Workload != y.Manifest.Workload {
				continue
			}
			common = true
			if diff := differing(mustAgree(), x.Manifest, y.Manifest); diff != "" {
				return diff
			}
		}
	}
	if common {
		return ""
	}
	return differing(mustAgree(), a.Manifest, b.Manifest)
}

// part returns the pairs of one workload.
func (c Comparison) part(m Manifest) Comparison {
	c.Pairs = slices.DeleteFunc(slices.Clone(c.Pairs), func(p Pair) bool { return string(p.Old.Workload) != m.Workload })
	return c
}

// CompareStrategies compares the strategies of one report, each to the first one under
// its condition. The error wraps ErrDiffer if no condition has two strategies.
func CompareStrategies(f File) (Comparison, error) {
	first := make(map[Key]Group)
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

// figure is a figure to compare.
type figure struct {
	name   string // in a group
	title  string
	format string // of a value
}

func compared(m Manifest) []figure {
	throughput, latency := "units sold per second", "latency"
	switch m.kind() {
	case reads:
		throughput = "values read per second"
	case held:
		return []figure{
			{"throughput", throughput, "%.0f"},
			{"p50_ms", "p50 latency of holding and paying, ms", "%.1f"},
			{"p99_ms", "p99 latency of holding and paying, ms", "%.1f"},
			{"sellable_after_s", "seconds from the expiry of a hold until its units could be sold again", "%.2f"},
			{"agrees_after_s", "seconds from the end of the load until all agreed", "%.2f"},
		}
	}
	if m.Rate > 0 {
		latency = "response time"
	}
	list := []figure{
		{"throughput", throughput, "%.0f"},
		{"p50_ms", "p50 " + latency + ", ms", "%.1f"},
		{"p99_ms", "p99 " + latency + ", ms", "%.1f"},
		{"redis_commands", "Redis commands per request", "%.2f"},
	}
	if m.Rate > 0 {
		list = append(list, figure{"dropped", "requests dropped", "%.0f"})
	}
	return list
}

func (p Pair) differs(f figure) figures.Difference {
	return p.Old.Figures[f.name].Differs(p.New.Figures[f.name])
}
