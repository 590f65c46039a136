package show

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"oversell/internal/lab"
)

// grid arranges the cells of a report as a table. The template of the page calls its exported
// methods.
type grid struct {
	Style
	Title     string // "" for the first table of a page
	of        lab.Report
	anomalies []lab.Anomaly
	cells     map[[2]string]lab.Cell // by anomaly and strategy
}

// newGrid arranges the cells of r in rows and columns. Rows are grouped by loss, the worst first.
func newGrid(r lab.Report, s Style) grid {
	g := grid{Style: s, of: r, anomalies: slices.Clone(r.Anomalies), cells: make(map[[2]string]lab.Cell, len(r.Cells))}
	for _, c := range r.Cells {
		g.cells[[2]string{c.Anomaly, c.Strategy}] = c
	}
	slices.SortStableFunc(g.anomalies, func(a, b lab.Anomaly) int { return cmp.Compare(rank(a.Loss), rank(b.Loss)) })
	return g
}

// rank returns the position of a loss in lab.Losses. An anomaly without a loss comes last.
func rank(l lab.Loss) int {
	if i := slices.Index(lab.Losses(), l); i >= 0 {
		return i
	}
	return len(lab.Losses())
}

// lossTitles contains the English headings of the groups of anomalies.
var lossTitles = map[lab.Loss]string{
	lab.SellsTwice: "Sells twice", lab.Stuck: "Stuck forever", lab.WaitsForNothing: "Waits for nothing",
	lab.WastedWork: "Wasted work", lab.APITrap: "API trap",
}

func (s Style) lossTitle(loss lab.Loss) string {
	return s.Named("break.loss."+string(loss), lossTitles[loss])
}

func (g grid) Strategies() []string { return g.of.Manifest.Strategies }

func (g grid) at(anomaly, strategy string) lab.Cell { return g.cells[[2]string{anomaly, strategy}] }

// Broken returns the number of anomalies that break the strategy and the number that apply to it.
func (g grid) Broken(strategy string) (n struct{ Breaks, Asked int }) {
	for _, a := range g.anomalies {
		switch g.at(a.Name, strategy).Outcome {
		case lab.NA:
			continue
		case lab.Breaks:
			n.Breaks++
		}
		n.Asked++
	}
	return n
}

func (g grid) Counts() string {
	n := make(map[lab.Outcome]int)
	for _, c := range g.of.Cells {
		n[c.Outcome]++
	}
	out := g.Sayf("%s, %s, %s: %d break, %d hold, %d n/a",
		g.Count(len(g.anomalies), "anomaly"), g.Count(len(g.Strategies()), "strategy"),
		g.Count(len(g.of.Cells), "cell"), n[lab.Breaks], n[lab.Holds], n[lab.NA])
	if n[lab.Unknown] > 0 {
		out += g.Sayf(", %d unknown", n[lab.Unknown])
	}
	return out
}

func (g grid) AsRecorded() string {
	unexpected, unrecorded := len(g.of.Unexpected()), 0
	for _, c := range g.of.Cells {
		if c.Expected == lab.NoRecord {
			unrecorded++
		}
	}
	recorded := len(g.of.Cells) - unrecorded
	switch {
	case unexpected > 0:
		return g.Sayf("Not as recorded: %d of %s.", unexpected, g.Count(recorded, "cell"))
	case recorded == 0:
		return g.Say("Nothing is on record for these cells.")
	case unrecorded > 0:
		return g.Sayf("All as recorded, except %d without a record.", unrecorded)
	}
	return g.Say("All as recorded.")
}

// shortNames contains the column headings of strategies whose names are too long.
var shortNames = map[string]string{
	"redsync":             "rsync",
	"redislock":           "rlock",
	"redsync_extended":    "rsyn+",
	"redislock_refreshed": "rlck+",
	"rueidislock":         "rueid",
	"redlock":             "redl",
	"zookeeper":           "zk",
}

// stageName matches the names of stages, such as v1_setnx or h1_counter. The tables set the stages
// apart from the other strategies.
var stageName = regexp.MustCompile(`^[vh]\d+_`)

const headWidth = 6

func short(strategy string) string {
	if s, ok := shortNames[strategy]; ok {
		return s
	}
	if stage := stageName.FindString(strategy); stage != "" {
		return strings.TrimSuffix(stage, "_")
	}
	if r := []rune(clean(strategy)); len(r) > headWidth {
		return string(r[:headWidth])
	}
	return clean(strategy)
}

func shortened(strategies []string) string {
	var out []string
	for _, s := range strategies {
		if short(s) != s {
			out = append(out, short(s)+" = "+clean(s))
		}
	}
	return strings.Join(out, ", ")
}

// Stage returns the first part of the name of a stage, after which a line may break, or "".
func (g grid) Stage(strategy string) string { return stageName.FindString(strategy) }

// NewGroup reports whether the group of stages begins or ends just before the i-th strategy.
func (g grid) NewGroup(i int) bool {
	all := g.Strategies()
	return i > 0 && stageName.MatchString(all[i]) != stageName.MatchString(all[i-1])
}

// OnlyEndless reports whether a cell holds only because its lock never expires: Redis kept the lock
// without an expiry for longer than a lease, or while its clock was set ahead. A lock with an
// expiry would have expired, unless it was renewed.
func OnlyEndless(m lab.Manifest, c lab.Cell) bool {
	if c.Outcome != lab.Holds {
		return false
	}
	lease := float64(cmp.Or(c.TTL, m.TTL).Milliseconds())
	held := "" // the holder whose lock has no expiry
	var since float64
	for _, e := range c.Trace {
		ahead := e.Kind == lab.Fault && e.Actor == "" && strings.Contains(e.Text, lab.JumpsAhead)
		if held != "" && (e.At-since > lease || ahead) {
			return true
		}
		switch {
		case e.Lock == "": // Redis was not read
		case e.Lock == free || e.TTL != nil:
			held = ""
		case e.Lock != held:
			held, since = e.Lock, e.At
		}
	}
	return false
}
