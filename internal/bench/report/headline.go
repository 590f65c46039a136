package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// finding is the result of one strategy under one condition.
type finding struct {
	Strategy  string
	Condition catalog.Condition
	Verdict   figures.Verdict
	Broke     string  // how it broke, such as "oversold 7"; "": it held
	By        int64   // by how much, to compare findings with the same verdict
	Speed     float64 // median
	Missed    bool    // a fault of a lock was not injected, so it may not count as held
}

// maxNamed is the maximum number of broken strategies that are named.
const maxNamed = 2

// breaking names the worst row of each strategy that broke, the worst of them first.
func breaking(all []finding, s present.Style) string {
	worst := make(map[string]finding)
	for _, f := range all {
		if before, known := worst[f.Strategy]; f.Broke != "" && (!known || worstFinding(f, before) < 0) {
			worst[f.Strategy] = f
		}
	}
	sorted := slices.SortedFunc(maps.Values(worst), worstFinding)
	var texts []string
	for _, f := range sorted[:min(maxNamed, len(sorted))] {
		texts = append(texts, s.Sayf("%s %s under %s", f.Strategy, f.Broke, s.Condition(f.Condition)))
	}
	if more := len(sorted) - maxNamed; more > 0 {
		texts = append(texts, s.Sayf("and %d more broke", more))
	}
	return strings.Join(texts, s.Say(", "))
}

// worstFinding orders findings: those that broke come first, the worst first.
func worstFinding(a, b finding) int {
	switch {
	case a.Broke != "" && b.Broke == "":
		return -1
	case a.Broke == "" && b.Broke != "":
		return +1
	}
	return cmp.Or(cmp.Compare(rank(b.Verdict), rank(a.Verdict)), cmp.Compare(b.By, a.By),
		cmp.Compare(a.Strategy, b.Strategy))
}

// rank returns the place of a verdict on a sale or on a lock, from OK to the worst.
func rank(v figures.Verdict) int {
	return max(v.Rank(), slices.Index([]figures.Verdict{figures.OK, GaveUp, Starved, Late, Broken}, v))
}

// holding names the strategies that held under every condition. If speeds have a unit, it names the
// fastest of them and compares it with the next one. The speeds are those under the first
// condition.
func holding(all []finding, unit string, s present.Style) string {
	held := slices.DeleteFunc(slices.Clone(all), func(f finding) bool {
		return f.Condition != all[0].Condition || slices.ContainsFunc(all, func(g finding) bool {
			return g.Strategy == f.Strategy && (g.Broke != "" || g.Missed)
		})
	})
	if len(held) == 0 {
		return s.Say("nothing held")
	}
	if unit == "" {
		names := make([]string, len(held))
		for i, f := range held {
			names[i] = f.Strategy
		}
		return s.Sayf("held: %s", strings.Join(names, s.Say(", ")))
	}
	slices.SortStableFunc(held, func(a, b finding) int { return cmp.Compare(b.Speed, a.Speed) })
	text := s.Sayf("fastest that held: %s, %s %s", held[0].Strategy, humanize.Comma(int64(math.Round(held[0].Speed))),
		s.Title(unit))
	if len(held) > 1 && held[1].Speed > 0 {
		text += s.Say(", ") + s.Sayf("%.1f times %s", held[0].Speed/held[1].Speed, held[1].Strategy)
	}
	return text
}

// Headline sums up each workload in one sentence: which strategies broke, under which condition and
// by how much, and which held under all conditions.
func (r Report) Headline(s present.Style) string {
	var text string
	for _, part := range r.Parts() {
		all := part.findings(s)
		if len(all) == 0 {
			continue
		}
		if broke := breaking(all, s); broke != "" {
			text += broke + s.Say("; ")
		}
		text += holding(all, part.speed(), s) + "\n"
	}
	return text
}

// speed returns the unit in which the speeds of the rows are given. It is "" if buyers came at a
// given rate under the first condition, so that the strategies did not decide the speed.
func (r Report) speed() string {
	if r.Rows[0].Open != nil {
		return ""
	}
	switch r.Manifest.kind() {
	case locks:
		return "deducts/s"
	case reads:
		return "reads/s"
	case held:
		return ""
	}
	return "sold/s"
}

// findings returns the findings of the report's rows: for each row the finding of its worst run.
// Rows without a verdict are left out.
func (r Report) findings(s present.Style) []finding {
	var all []finding
	for _, g := range r.groups() {
		if g.Verdicts[figures.NotComparable]+g.Verdicts[Skipped] > 0 {
			continue
		}
		speed := g.Figures["throughput"].Median + g.Figures["deducts_per_s"].Median // only one of them is set
		runs := make([]finding, len(g.Rows))
		for i, row := range g.Rows {
			runs[i] = finding{Strategy: g.Strategy, Condition: g.Condition, Verdict: row.Verdict, Speed: speed}
			runs[i].Broke, runs[i].By = row.broke(s)
		}
		worst := slices.MinFunc(runs, worstFinding)
		worst.Missed = slices.ContainsFunc(g.Rows, func(row Row) bool { return row.Lock.Missed() })
		all = append(all, worst)
	}
	return all
}

// broke returns what went wrong in a row and by how much, or "".
func (r Row) broke(s present.Style) (what string, by int64) {
	if r.Lock != nil {
		return r.Lock.broke(r.Verdict, s)
	}
	if r.Workload == catalog.Cache {
		return r.unread(s)
	}
	left := r.Undersold
	if r.Chaos != nil {
		left = r.Chaos.Remaining // the final sell-out found them, even if no buyer of the load was refused
	}
	switch r.Verdict {
	case figures.OK:
		return "", 0
	case figures.Oversold:
		return s.Sayf("oversold %s", humanize.Comma(r.Oversold)), r.Oversold
	case figures.Unknown:
		return s.Sayf("may have oversold %s", humanize.Comma(r.OversoldPossible)), r.OversoldPossible
	case figures.Stuck:
		return s.Sayf("got stuck with %s units left", humanize.Comma(left)), left
	case figures.Undersold:
		return s.Sayf("undersold %s", humanize.Comma(left)), left
	}
	return r.drifted(s)
}

// unread returns what went wrong for the readers of a cold key, and by how much, or "".
func (r Row) unread(s present.Style) (what string, by int64) {
	switch r.Verdict {
	case figures.Stuck:
		return s.Say("served no reader"), r.Failed
	case figures.Undersold:
		return s.Sayf("did not serve %s readers", humanize.Comma(r.Failed)), r.Failed
	case figures.Reloaded:
		return s.Sayf("loaded the key %s times", humanize.Comma(r.DBLoads)), r.DBLoads
	}
	return "", 0
}

// drifted names the figure that disagrees in a row whose verdict is drift.
func (r Row) drifted(s present.Style) (what string, by int64) {
	switch {
	case r.AcknowledgedMissing > 0:
		return s.Sayf("lost %s orders that buyers were told of", humanize.Comma(r.AcknowledgedMissing)),
			r.AcknowledgedMissing
	case r.Held != nil && r.ChargedWithoutOrder > 0:
		return s.Sayf("charged %s times without an order", humanize.Comma(r.ChargedWithoutOrder)), r.ChargedWithoutOrder
	case r.Stranded > 0:
		return s.Sayf("stranded %s", humanize.Comma(r.Stranded)), r.Stranded
	case r.LostUpdates > 0:
		return s.Sayf("lost %s updates", humanize.Comma(r.LostUpdates)), r.LostUpdates
	}
	return s.Say("drifted"), 1
}
