// Package growth says how the cost of a sale grows with the number of shops and of items, from
// reports of the bench.
package growth

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// ErrReports is wrapped by the errors of Write.
var ErrReports = errors.New("the growth cannot be computed")

// A figure is one that a table shows for each number of items and instances.
type figure struct {
	name string // in report.Group.Figures
	is   string
	of   func(strategy string) bool
}

var (
	everyStrategy = func(string) bool { return true }
	usesDatabase  = func(name string) bool { return strings.HasPrefix(name, "sql_") }
	usesRedis     = func(name string) bool { return !usesDatabase(name) }
)

// allFigures are those that are shown, in their order.
func allFigures() []figure {
	return []figure{
		{"redis_commands", "Redis commands a sale", usesRedis},
		{"connection_ms", "ms that a connection to the database is out, a sale", usesDatabase},
		{"throughput", "sales a second", everyStrategy},
	}
}

// size is what a cell of a table is for.
type size struct{ items, instances int }

// grid has a figure of one strategy by size.
type grid map[size]figures.Estimate

// Write writes a table in Markdown for each figure. The reports must differ in the number of
// items or instances alone, and their buyers must all have bought: then a request is a sale.
// Its errors wrap ErrReports, unless writing failed.
func Write(out io.Writer, reports []report.Report) error {
	if err := alike(reports); err != nil {
		return err
	}
	found := make(map[string]map[string]grid) // by figure and strategy
	for _, r := range reports {
		at := size{max(1, r.Manifest.Items), r.Manifest.Instances}
		for _, g := range r.Groups() {
			if err := allBought(r, g); err != nil {
				return err
			}
			for _, f := range allFigures() {
				if e, ok := g.Figures[f.name]; ok && f.of(g.Strategy) {
					if err := add(found, f.name, g.Strategy, at, e); err != nil {
						return err
					}
				}
			}
		}
	}
	for _, f := range allFigures() {
		if len(found[f.name]) == 0 {
			continue
		}
		if _, err := io.WriteString(out, table(f.is, found[f.name])); err != nil {
			return err
		}
	}
	return nil
}

// alike returns an error if the reports differ in more than their sizes.
func alike(reports []report.Report) error {
	if len(reports) == 0 {
		return fmt.Errorf("%w: no report", ErrReports)
	}
	first := settings(reports[0].Manifest)
	for _, r := range reports[1:] {
		for i, other := range settings(r.Manifest) {
			if one := first[i]; one != other {
				return fmt.Errorf("%w: the reports differ in more than -items and -instances: %s is %v and %v", ErrReports, one.name, one.value, other.value)
			}
		}
	}
	return nil
}

type setting struct {
	name  string // in the JSON of a report
	value any
}

// settings are what must be the same in all reports. Others follow from the number of items or
// instances unless they are set: how long buyers wait, and how many requests are in flight.
func settings(m report.Manifest) []setting {
	return []setting{
		{"redis", withoutPort(m.Redis)}, {"db", withoutPort(m.DB)},
		{"go", m.Go}, {"os", m.OS}, {"cpus", m.CPUs}, {"version", m.Version},
		{"requests", m.Requests}, {"rate", m.Rate}, {"duration", m.Duration},
		{"stock", m.Stock}, {"workload", m.Workload}, {"ttl", m.TTL}, {"work", m.Work}, {"retry", m.Retry},
		{"keys", m.Keys}, {"keeper", m.Keeper}, {"unfenced", m.Unfenced}, {"replicas", m.Replicas},
	}
}

// withoutPort removes the ports of local servers from a server's name: a private one has
// another at each run.
func withoutPort(server string) string { return localPort.ReplaceAllString(server, "127.0.0.1") }

var localPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// allBought returns an error unless each request of the group was a sale under calm.
func allBought(r report.Report, g report.Group) error {
	for _, row := range r.Rows {
		if row.Strategy != g.Strategy || row.Condition != g.Condition {
			continue
		}
		if row.Condition != catalog.Calm || row.Sold != int64(row.Requests) {
			return fmt.Errorf("%w: %s under %s sold %d to %d buyers; use -conditions calm and a -stock that is enough for each item",
				ErrReports, row.Strategy, row.Condition, row.Sold, row.Requests)
		}
	}
	return nil
}

// add adds a cell.
func add(found map[string]map[string]grid, figure, strategy string, at size, e figures.Estimate) error {
	if found[figure] == nil {
		found[figure] = make(map[string]grid)
	}
	if found[figure][strategy] == nil {
		found[figure][strategy] = make(grid)
	}
	if _, twice := found[figure][strategy][at]; twice {
		return fmt.Errorf("%w: two reports have %d items and %d instances", ErrReports, at.items, at.instances)
	}
	found[figure][strategy][at] = e
	return nil
}

// table is the table of one figure.
func table(is string, of map[string]grid) string {
	items, instances := make(map[int]bool), make(map[int]bool)
	for _, g := range of {
		for at := range g {
			items[at.items], instances[at.instances] = true, true
		}
	}
	across := slices.Sorted(maps.Keys(instances))
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | items |", is)
	for _, n := range across {
		fmt.Fprintf(&b, " %s |", report.Plural(n, "shop"))
	}
	fmt.Fprintf(&b, " each doubling |\n|---|---|%s---|\n", strings.Repeat("---|", len(across)))
	for _, strategy := range slices.Sorted(maps.Keys(of)) {
		for _, n := range slices.Sorted(maps.Keys(items)) {
			fmt.Fprintf(&b, "| `%s` | %d |", strategy, n)
			var shops, costs []float64
			for _, i := range across {
				e, ok := of[strategy][size{n, i}]
				if !ok {
					b.WriteString(" |")
					continue
				}
				shown := Shown(e.Median)
				fmt.Fprintf(&b, " %s |", shown)
				cost, _ := strconv.ParseFloat(shown, 64)
				shops, costs = append(shops, float64(i)), append(costs, cost)
			}
			fmt.Fprintf(&b, " %s |\n", Doubling(shops, costs))
		}
	}
	b.WriteString("\n")
	return b.String()
}

// Shown is a figure with three digits, or all of its digits before the point.
func Shown(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', max(0, digits), 64)
}

// Doubling is the factor by which a cost grows when the number of shops doubles, such as ×1.50:
// two to the power of the slope of the line through the logarithms, by least squares.
func Doubling(shops, costs []float64) string {
	var n, sx, sy, sxx, sxy float64
	for i := range shops {
		if shops[i] <= 0 || costs[i] <= 0 {
			return "·"
		}
		x, y := math.Log2(shops[i]), math.Log2(costs[i])
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	spread := n*sxx - sx*sx
	if n < 2 || spread == 0 {
		return "·"
	}
	return fmt.Sprintf("×%.2f", math.Exp2((n*sxy-sx*sy)/spread))
}
