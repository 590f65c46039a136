package show

import (
	"embed"
	"io"
	"net/url"

	"oversell/internal/lab"
	"oversell/internal/present"
)

// data is the input of the page's script.
type data struct {
	Anomalies map[string]titled `json:"anomalies"`
	Cells     []told            `json:"cells"`
	Words     map[string]string `json:"words,omitempty"` // translations for the scripts; empty in English
}

// titled is an anomaly together with its title.
type titled struct {
	lab.Anomaly
	Title string `json:"title,omitempty"`
}

func (s Style) titled(a lab.Anomaly) titled { return titled{s.about(a), s.title(a.Name)} }

// told is a cell together with its timeline.
type told struct {
	viewCell
	Command string `json:"command"`
	story
}

func (s Style) told(m lab.Manifest, c lab.Cell) told {
	return told{s.newViewCell(m, c), s.command(m, c.Anomaly, c.Strategy), tell(c, s)}
}

// view is the data of the page, except for its timelines.
type view struct {
	Title    string // "" for the first table of the page
	RanOn    string
	Counts   string
	Recorded string
	Columns  []viewColumn
	Width    int // number of columns, including the column of names
	Rows     []viewRow
	Wrong    []viewCell // outcomes that differ from the record
}

type viewColumn struct {
	Stage, Rest   string // the two parts of its name; a line may break between them
	Breaks, Asked int
	NewGroup      bool // the group of stages begins or ends here
}

type viewRow struct {
	titled
	Heading string // heading of the group that begins here, or ""
	Cells   []viewCell
}

type viewCell struct {
	Anomaly  string `json:"anomaly"`
	Strategy string `json:"strategy"`
	Class    string `json:"class"`
	Verdict  string `json:"verdict"`
	Note     string `json:"note"`
	Link     string `json:"link"` // opens its timeline

	NewGroup bool   `json:"-"`
	Mark     string `json:"-"`
	On       string `json:"-"` // the anomaly and the strategy
}

func newView(style Style, r lab.Report) view {
	g := newGrid(r, style)
	v := view{RanOn: style.ranOn(r.Manifest), Counts: g.counts(), Recorded: g.asRecorded()}
	for i, s := range g.strategies() {
		stage := stageName.FindString(s)
		c := viewColumn{Stage: stage, Rest: s[len(stage):], NewGroup: newGroup(g.strategies(), i)}
		c.Breaks, c.Asked = g.broken(s)
		v.Columns = append(v.Columns, c)
	}
	v.Width = 1 + len(v.Columns)
	for i, a := range g.anomalies {
		row := viewRow{titled: style.titled(a)}
		if i == 0 || g.anomalies[i-1].Loss != a.Loss {
			row.Heading = style.lossTitle(a.Loss)
		}
		for i, s := range g.strategies() {
			c := style.newViewCell(r.Manifest, g.at(a.Name, s))
			c.NewGroup = newGroup(g.strategies(), i)
			row.Cells = append(row.Cells, c)
		}
		v.Rows = append(v.Rows, row)
	}
	for _, c := range r.Unexpected() {
		v.Wrong = append(v.Wrong, style.newViewCell(r.Manifest, c))
	}
	return v
}

func (s Style) newViewCell(m lab.Manifest, c lab.Cell) viewCell {
	class, mark := looks[c.Outcome].class, s.Say(looks[c.Outcome].onPage)
	if OnlyEndless(m, c) {
		class, mark = class+" endless", mark+" "+endlessMark
	}
	if !c.AsExpected() {
		class, mark = class+" wrong", mark+" !"
	}
	return viewCell{
		Anomaly: c.Anomaly, Strategy: c.Strategy, Class: class, Mark: mark, On: s.on(c),
		Verdict: s.verdict(m, c), Note: s.Tell(c.Note, c.Message),
		Link: "#" + url.PathEscape(c.Anomaly) + "/" + url.PathEscape(c.Strategy),
	}
}

//go:embed page
var assets embed.FS

var page = present.NewPage(assets, "page")

// HTML writes the report as one file that can be opened from disk and needs no network. It contains
// the matrix and the timeline of each cell. The matrix is rendered here, so it needs no script. The
// browser draws the timelines from the same stories as the terminal.
func HTML(w io.Writer, r lab.Report, s Style) error {
	own := page.File("cell.js", "page.js") // lanes.js contains no words to translate
	all := data{Anomalies: make(map[string]titled), Cells: []told{}, Words: s.Words(own)}
	var views []view
	for _, part := range append([]Part{{Report: r}}, s.Parts(r)...) {
		v := newView(s, part.Report)
		v.Title = part.Title
		views = append(views, v)
		for _, row := range v.Rows {
			all.Anomalies[row.Name] = row.titled
		}
		for _, c := range part.Report.Cells {
			all.Cells = append(all.Cells, s.told(part.Report.Manifest, c))
		}
	}
	return page.Write(w, s.Style, page.File("style.css"), page.File("lanes.js")+own,
		map[string]any{"Views": views, "Data": all})
}

// Part is one of the tables of a report after the first.
type Part struct {
	Title  string
	Report lab.Report
}

// Parts returns the tables of a report after the first, in their order.
func (s Style) Parts(r lab.Report) (parts []Part) {
	if r.Holds != nil {
		parts = append(parts, Part{s.Say("A sale by holds"), *r.Holds})
	}
	if r.Behind != nil {
		parts = append(parts, Part{s.Say("Repairs, and orders written behind the sale"), *r.Behind})
	}
	return parts
}

// Lanes returns the JavaScript module that draws a timeline in lanes. Its input is Told.Story. The
// report that HTML writes contains the same module.
func Lanes() []byte { return []byte(page.File("lanes.js")) }

// Told is a cell together with its timeline. The page depends on its JSON form.
type Told struct {
	lab.Cell
	Story any `json:"story"` // the input of the module that Lanes returns
}

// Tell returns a cell with its timeline.
func Tell(m lab.Manifest, c lab.Cell) Told { return Told{c, Style{}.told(m, c)} }
