package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// Key identifies a row: its runs have the same key.
type Key struct {
	Strategy  string            `json:"strategy"`
	Condition catalog.Condition `json:"condition"`
	Workload  catalog.Workload  `json:"workload"`
}

// String names a row for a person.
func (k Key) String() string { return k.in(present.Style{}) }

func (k Key) in(s present.Style) string {
	return s.Sayf("%s under %s", k.Strategy, s.Condition(k.Condition))
}

// Name names the row for a person.
func (r Row) Name(s present.Style) string { return r.key().in(s) }

func (r Row) key() Key { return Key{r.Strategy, r.Condition, r.Workload} }

// Group summarises the runs of one row.
type Group struct {
	Key
	Runs       int                         `json:"runs"`
	Expected   int                         `json:"expected"`   // runs that matched the catalog's expectation
	Verdicts   map[figures.Verdict]int     `json:"verdicts"`   // runs by their verdict
	Confidence float64                     `json:"confidence"` // that an interval contains the true median
	Figures    map[string]figures.Estimate `json:"figures"`    // by their names in a row

	Rows []Row `json:"-"` // the runs
}

// Groups groups the runs by row, in the order of their first runs.
func (r Report) Groups() []Group {
	rows := make(map[Key][]Row)
	var order []Key
	for _, row := range r.Rows {
		k := row.key()
		if rows[k] == nil {
			order = append(order, k)
		}
		rows[k] = append(rows[k], row)
	}
	groups := make([]Group, len(order))
	for i, k := range order {
		groups[i] = newGroup(k, rows[k])
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

// figures returns the row's figures by their names in JSON, including those of an open
// load. Figures that were not counted are left out.
func (r Row) figures() map[string]float64 {
	all := map[string]float64{
		"sold": float64(r.Sold), "sold_out": float64(r.SoldOut), "served": float64(r.Served),
		"failed": float64(r.Failed), "unknown": float64(r.Unknown),
		"oversold": float64(r.Oversold), "oversold_possible": float64(r.OversoldPossible),
		"lost_updates": float64(r.LostUpdates), "undersold": float64(r.Undersold),
		"duplicates": float64(r.Duplicates), "acknowledged_missing": float64(r.AcknowledgedMissing),
		"unreported": float64(r.Unreported), "stranded": float64(r.Stranded), "accepted_lost": float64(r.AcceptedLost), "durable_p99_ms": r.DurableP99, "drain_ms": r.Drain, "max_holders": float64(r.MaxHolders), "db_loads": float64(r.DBLoads),
		"p50_ms": r.P50, "p95_ms": r.P95, "p99_ms": r.P99, "max_ms": r.Max, "wall_ms": r.Wall,
		"throughput": r.Throughput,
	}
	if r.RedisCommands != nil {
		all["redis_commands"] = *r.RedisCommands
	}
	if r.ConnectionTime != nil {
		all["connection_ms"] = *r.ConnectionTime
	}
	if h := r.Held; h != nil {
		maps.Copy(all, map[string]float64{
			"holds": float64(h.Holds), "captures": float64(h.Captures), "refunds": float64(h.Refunds),
			"charged_without_order": float64(h.ChargedWithoutOrder),
		})
		for name, seconds := range map[string]*float64{"sellable_after_s": h.SellableAfter, "agrees_after_s": h.AgreesAfter} {
			if seconds != nil {
				all[name] = *seconds
			}
		}
	}
	if k := r.Kills; k != nil && k.AgreesAfterKill != nil {
		all["agrees_after_kill_s"] = *k.AgreesAfterKill
	}
	if i := r.Items; i != nil {
		maps.Copy(all, map[string]float64{
			"items_not_ok": float64(i.NotOK), "items_oversold": float64(i.Oversold),
			"worst_oversold": float64(i.Worst.Oversold), "worst_stranded": float64(i.Worst.Stranded), "worst_throughput": i.Worst.Throughput,
		})
	}
	if o := r.Open; o != nil {
		maps.Copy(all, map[string]float64{
			"planned": float64(o.Planned), "sent": float64(o.Sent), "dropped": float64(o.Dropped),
			"achieved_rate": o.AchievedRate, "late_ms": o.Late,
			"service_p50_ms": o.ServiceP50, "service_p99_ms": o.ServiceP99, "service_max_ms": o.ServiceMax,
		})
	}
	return all
}

// Worst says how bad the worst verdict is: "good", "fair" or "bad".
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

// Verdict names the verdicts of the runs, the most frequent first. It ends in (!) if a
// run did not match the catalog's expectation.
func (g Group) Verdict(s present.Style) string {
	verdicts := slices.SortedFunc(maps.Keys(g.Verdicts), func(a, b figures.Verdict) int {
		return cmp.Or(cmp.Compare(g.Verdicts[b], g.Verdicts[a]), cmp.Compare(a, b))
	})
	texts := make([]string, len(verdicts))
	for i, v := range verdicts {
		texts[i] = s.Verdict(v)
		if g.Runs > 1 {
			texts[i] += fmt.Sprintf(" %d/%d", g.Verdicts[v], g.Runs)
		}
	}
	text := strings.Join(texts, s.Say(", "))
	if g.Expected < g.Runs {
		text += " (!)"
	}
	return text
}

// runs are the smallest and the largest number of runs that a row had.
func runs(groups []Group) (fewest, most int) {
	for i, g := range groups {
		if i == 0 || g.Runs < fewest {
			fewest = g.Runs
		}
		most = max(most, g.Runs)
	}
	return fewest, most
}
