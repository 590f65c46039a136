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

type viewCell struct {
	Anomaly  string `json:"anomaly"`
	Strategy string `json:"strategy"`
	Class    string `json:"class"`
	Verdict  string `json:"verdict"`
	Note     string `json:"note"`
	Link     string `json:"link"` // opens its timeline

	Mark string `json:"-"`
	On   string `json:"-"` // the anomaly and the strategy
}

// Rows returns the anomalies in their order.
func (g grid) Rows() (rows []titled) {
	for _, a := range g.anomalies {
		rows = append(rows, g.titled(a))
	}
	return rows
}

// Heading returns the heading of the group that begins with the i-th row, or "".
func (g grid) Heading(i int) string {
	if i > 0 && g.anomalies[i-1].Loss == g.anomalies[i].Loss {
		return ""
	}
	return g.lossTitle(g.anomalies[i].Loss)
}

func (g grid) Cell(anomaly, strategy string) viewCell {
	return g.newViewCell(g.of.Manifest, g.at(anomaly, strategy))
}

// Wrong returns the cells whose outcomes differ from the record.
func (g grid) Wrong() (cells []viewCell) {
	for _, c := range g.of.Unexpected() {
		cells = append(cells, g.newViewCell(g.of.Manifest, c))
	}
	return cells
}

func (g grid) RanOn() string { return g.ranOn(g.of.Manifest) }

// Width returns the number of columns, including the column of names.
func (g grid) Width() int { return 1 + len(g.Strategies()) }

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
	var tables []grid
	for _, part := range append([]Part{{Report: r}}, s.Parts(r)...) {
		g := newGrid(part.Report, s)
		g.Title = part.Title
		tables = append(tables, g)
		for _, a := range g.Rows() {
			all.Anomalies[a.Name] = a
		}
		for _, c := range part.Report.Cells {
			all.Cells = append(all.Cells, s.told(part.Report.Manifest, c))
		}
	}
	return page.Write(w, s.Style, page.File("style.css"), page.File("lanes.js")+own,
		map[string]any{"Tables": tables, "Data": all})
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
