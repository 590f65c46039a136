package show

import (
	"net/url"

	"oversell/internal/lab"
)

// view is the data of the page, except for its timelines.
type view struct {
	Title    string // "" for the first table of the page
	RanOn    string
	Counts   string
	Recorded string
	Columns  []viewColumn
	Width    int // columns, with that of the names
	Rows     []viewRow
	Wrong    []viewCell // outcomes that differ from the record
}

type viewColumn struct {
	Stage, Rest   string // its name, which may be broken in between
	Breaks, Asked int
	NewGroup      bool // the group of stages begins or ends here
}

type viewRow struct {
	lab.Anomaly
	Title   string // beside its name
	Heading string // of the group that begins here, or ""
	Cells   []viewCell
}

type viewCell struct {
	lab.Cell
	Ran      bool
	NewGroup bool
	Class    string
	Mark     string
	Link     string // opens its timeline
	On       string // the anomaly and the strategy
	Verdict  string
}

func newView(style Style, r lab.Report) view {
	g := newGrid(r)
	v := view{RanOn: style.ranOn(r.Manifest), Counts: style.counts(r), Recorded: style.asRecorded(r)}
	for i, s := range g.strategies {
		stage := stageName.FindString(s)
		c := viewColumn{Stage: stage, Rest: s[len(stage):], NewGroup: newGroup(g.strategies, i)}
		c.Breaks, c.Asked = g.broken(s)
		v.Columns = append(v.Columns, c)
	}
	v.Width = 1 + len(v.Columns)
	for i, a := range g.anomalies {
		row := viewRow{Anomaly: style.about(a), Title: style.title(a.Name), Heading: g.heading(i, style)}
		for i, s := range g.strategies {
			c, ran := g.at(a.Name, s)
			vc := style.newViewCell(r.Manifest, c)
			vc.Ran, vc.NewGroup = ran, newGroup(g.strategies, i)
			row.Cells = append(row.Cells, vc)
		}
		v.Rows = append(v.Rows, row)
	}
	for _, c := range r.Unexpected() {
		v.Wrong = append(v.Wrong, style.newViewCell(r.Manifest, c))
	}
	return v
}

func (s Style) newViewCell(m lab.Manifest, c lab.Cell) viewCell {
	class, mark := "unknown", "?"
	switch c.Outcome {
	case lab.Holds:
		class, mark = "holds", "ok"
	case lab.Breaks:
		class, mark = "breaks", "breaks"
	case lab.NA:
		class, mark = "na", "·"
	}
	mark = s.Say(mark)
	if OnlyEndless(m, c) {
		class, mark = class+" endless", mark+" "+endlessMark
	}
	if !c.AsExpected() {
		class, mark = class+" wrong", mark+" !"
	}
	v := viewCell{Cell: c, Class: class, Mark: mark, Link: link(c), On: s.on(c), Verdict: s.verdict(m, c)}
	v.Note = s.Say(c.Note)
	return v
}

func link(c lab.Cell) string {
	return "#" + url.PathEscape(c.Anomaly) + "/" + url.PathEscape(c.Strategy)
}
