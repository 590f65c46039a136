package report

import (
	"slices"

	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/present"
)

// plots is the input of the page's script.
type plots struct {
	Strategies []string `json:"strategies"`
	Conditions []plot   `json:"conditions"`
	Reads      bool     `json:"reads"` // the requests are reads of a cold key

	// Words maps the texts of the scripts to their translations; nil: English.
	Words map[string]string `json:"words,omitempty"`
}

// plot holds the plots of one condition.
type plot struct {
	Name    string `json:"name"`
	Title   string `json:"title"` // for a person
	Open    bool   `json:"open"`  // requests had planned times
	Bars    []bar  `json:"bars"`
	Latency chart  `json:"latency"` // over percentiles
	Served  chart  `json:"served"`  // per second, over seconds
	Wait    chart  `json:"wait"`    // over percentiles
}

// bar holds a strategy's units oversold and undersold, or the loads of a cold key and the readers
// not served.
type bar struct {
	Strategy string           `json:"strategy"`
	Over     figures.Estimate `json:"over"`
	Under    figures.Estimate `json:"under"`
}

// chart is a set of curves over the same x values.
type chart struct {
	X      []float64 `json:"x"`
	Curves []curve   `json:"curves"`
}

// newChart returns an empty chart, whose lists are not null in JSON.
func newChart() chart { return chart{X: []float64{}, Curves: []curve{}} }

// curve holds the medians and intervals of a strategy's runs. Unknown values are nil.
type curve struct {
	Strategy string     `json:"strategy"`
	Runs     int        `json:"runs"`
	Median   []*float64 `json:"median"`
	Low      []*float64 `json:"low"`
	High     []*float64 `json:"high"`
}

func (r Report) plots(s present.Style) plots {
	p := plots{Reads: r.Manifest.kind() == reads, Conditions: []plot{}}
	for _, row := range r.Rows {
		if !slices.Contains(p.Strategies, row.Strategy) {
			p.Strategies = append(p.Strategies, row.Strategy)
		}
	}
	for _, c := range r.conditions() {
		p.Conditions = append(p.Conditions, Report{Manifest: r.Manifest, Rows: r.under(c)}.plot(c, s))
	}
	return p
}

// plot returns the plots of a report whose rows have the same condition.
func (r Report) plot(c catalog.Condition, s present.Style) plot {
	over, under := "oversold", "undersold"
	if r.Manifest.kind() == reads {
		over, under = "db_loads", "failed"
	}
	open := slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Open != nil })
	p := plot{Name: string(c), Title: s.Condition(c), Open: open,
		Latency: newChart(), Served: newChart(), Wait: newChart()}
	bin, bins := commonBins(r.Rows)
	for n := range bins {
		p.Served.X = append(p.Served.X, (float64(n)+0.5)*bin/1e3)
	}
	for _, g := range r.groups() {
		p.Bars = append(p.Bars, bar{g.Strategy, g.Figures[over], g.Figures[under]})
		p.Latency.percentiles(g.Strategy, g.Rows, func(p *Percentiles) []float64 { return p.Latency })
		p.Wait.percentiles(g.Strategy, g.Rows, func(p *Percentiles) []float64 { return p.Wait })
		p.Served.timeline(g.Strategy, g.Rows, bin)
	}
	p.dropZeros()
	return p
}

// dropZeros empties the plots whose figures are all zero, so that the page leaves them out.
func (p *plot) dropZeros() {
	if !slices.ContainsFunc(p.Bars, func(b bar) bool { return b.Over.High != 0 || b.Under.High != 0 }) {
		p.Bars = []bar{}
	}
	for _, c := range []*chart{&p.Latency, &p.Served, &p.Wait} {
		if !slices.ContainsFunc(c.Curves, curve.rises) {
			c.Curves = []curve{}
		}
	}
}

// rises reports whether a curve has a value above the smallest one that is drawn.
func (c curve) rises() bool {
	return slices.ContainsFunc(c.High, func(v *float64) bool { return v != nil && *v > shortest })
}

// percentiles adds a curve over percentiles.
func (c *chart) percentiles(strategy string, runs []Row, of func(p *Percentiles) []float64) {
	var lines [][]float64
	for _, row := range runs {
		if row.Percentiles == nil {
			continue
		}
		ms := of(row.Percentiles)
		if len(ms) == 0 || len(ms) != len(row.Percentiles.P) {
			continue
		}
		c.X = row.Percentiles.P
		line := make([]float64, len(ms))
		for i := range ms {
			line[i] = max(ms[i], shortest)
		}
		lines = append(lines, line)
	}
	c.add(strategy, lines)
}

// shortest is the smallest value drawn, in ms: a logarithmic scale has no zero.
const shortest = 0.01

// timeline adds a curve over time.
func (c *chart) timeline(strategy string, runs []Row, bin float64) {
	bins := len(c.X)
	var lines [][]float64
	longest := 0
	for _, row := range runs {
		if row.Timeline == nil || row.Timeline.Bin <= 0 {
			continue
		}
		each := bin / row.Timeline.Bin // a power of two
		line := make([]float64, bins)
		for i, n := range row.Timeline.Served {
			at := int(float64(i) / each)
			line[at] += float64(n) / bin * 1e3
			longest = max(longest, at+2) // plus one bin after the last
		}
		lines = append(lines, line)
	}
	for i := range lines {
		lines[i] = lines[i][:min(longest, bins)]
	}
	c.add(strategy, lines)
}

// fewBins is the maximum number of bins that are drawn: more would show noise.
const fewBins = 60

// commonBins returns the length in ms and the number of the bins that all timelines share.
func commonBins(rows []Row) (bin float64, bins int) {
	end := 0.0
	for _, row := range rows {
		if row.Timeline != nil {
			bin = max(bin, row.Timeline.Bin)
			end = max(end, row.Timeline.Bin*float64(len(row.Timeline.Served)))
		}
	}
	if bin == 0 {
		return 0, 0
	}
	for end/bin > fewBins {
		bin *= 2
	}
	return bin, int(end/bin) + 2
}

// add adds the curve of a strategy, computed from one line for each run.
func (c *chart) add(strategy string, lines [][]float64) {
	if len(lines) == 0 {
		return
	}
	k := curve{Strategy: strategy, Runs: len(lines)}
	for i := range c.X {
		var values []float64
		for _, line := range lines {
			if i < len(line) {
				values = append(values, line[i])
			}
		}
		var median, low, high *float64
		if len(values) > 0 {
			e := figures.MedianOf(values)
			median, low, high = &e.Median, &e.Low, &e.High
		}
		k.Median, k.Low, k.High = append(k.Median, median), append(k.Low, low), append(k.High, high)
	}
	c.Curves = append(c.Curves, k)
}
