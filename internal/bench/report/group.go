package report

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"oversell/internal/figures"
	"oversell/internal/present"
)

// Group summarises the runs of one row.
type Group struct {
	Key
	Runs       int                         `json:"runs"`
	repeated   bool                        // at least one row of the report was run more than once
	Expected   int                         `json:"expected"`   // runs that matched the catalog's expectation
	Verdicts   map[figures.Verdict]int     `json:"verdicts"`   // runs by their verdict
	Confidence float64                     `json:"confidence"` // probability that an interval contains the true median
	Figures    map[string]figures.Estimate `json:"figures"`    // by their names in a row

	Rows []Row `json:"-"` // the runs
}

// groups groups the runs by row, in the order of their first runs.
func (r Report) groups() []Group {
	rows := make(map[Key][]Row)
	var order []Key
	for _, row := range r.Rows {
		k := row.Key
		if rows[k] == nil {
			order = append(order, k)
		}
		rows[k] = append(rows[k], row)
	}
	groups := make([]Group, len(order))
	for i, k := range order {
		groups[i] = newGroup(k, rows[k])
		groups[i].repeated = len(r.Rows) > len(order)
	}
	return groups
}

func newGroup(k Key, runs []Row) Group {
	g := Group{
		Key: k, Rows: runs, Runs: len(runs), Confidence: figures.Confidence(len(runs)),
		Verdicts: make(map[figures.Verdict]int), Figures: make(map[string]figures.Estimate),
	}
	values := make(map[string][]float64)
	for _, row := range runs {
		g.Verdicts[row.Verdict]++
		if row.Expected {
			g.Expected++
		}
		for name, value := range row.figures() {
			values[name] = append(values[name], value)
		}
	}
	for name, seen := range values {
		g.Figures[name] = figures.MedianOf(seen)
	}
	return g
}

// figures returns the row's figures by their names in JSON, including those of an open load.
// Figures that were not measured are left out.
func (r Row) figures() map[string]float64 {
	all := make(map[string]float64)
	add := func(name string, v reflect.Value) {
		switch v = reflect.Indirect(v); { // a nil pointer has no value
		case v.CanInt():
			all[name] = float64(v.Int())
		case v.CanFloat():
			all[name] = v.Float()
		}
	}
	parts := []any{r.Load, r.Audit, r.Held, r.Kills, r.Open}
	if r.Lock != nil {
		parts = []any{r.Lock}
	}
	for _, part := range parts {
		fields(part, add)
	}
	if i := r.Items; i != nil {
		maps.Copy(all, map[string]float64{
			"items_not_ok": float64(i.NotOK), "items_oversold": float64(i.Oversold),
			"worst_oversold": float64(i.Worst.Oversold), "worst_stranded": float64(i.Worst.Stranded),
			"worst_throughput": i.Worst.Throughput,
		})
	}
	return all
}

// Worst returns how bad the worst verdict is: "good", "fair" or "bad".
func (g Group) Worst() string {
	worst := "good"
	for v := range g.Verdicts {
		switch {
		case v == figures.Oversold || v == figures.Stuck:
			return "bad"
		case v != figures.OK:
			worst = "fair"
		}
	}
	return worst
}

// Verdict names the verdicts of the runs, the most frequent first. The text ends in (!) if a run
// did not match the catalog's expectation. If rows were repeated, it also says how many runs had
// each verdict.
func (g Group) Verdict(s present.Style) string {
	verdicts := slices.SortedFunc(maps.Keys(g.Verdicts), func(a, b figures.Verdict) int {
		return cmp.Or(cmp.Compare(g.Verdicts[b], g.Verdicts[a]), cmp.Compare(a, b))
	})
	texts := make([]string, len(verdicts))
	for i, v := range verdicts {
		texts[i] = s.Verdict(v)
		if g.repeated {
			texts[i] += fmt.Sprintf(" %d/%d", g.Verdicts[v], g.Runs)
		}
	}
	text := strings.Join(texts, s.Say(", "))
	if g.Expected < g.Runs {
		text += " (!)"
	}
	return text
}
