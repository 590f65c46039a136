package show

import (
	"embed"
	"io"

	"oversell/internal/lab"
	"oversell/internal/present"
)

//go:embed page
var assets embed.FS

var page = present.NewPage(assets, "page")

// HTML writes the report as one file that is opened from disk and needs no
// network: the matrix, and for each cell its timeline. The matrix is rendered
// here, so that it is shown without a script; the browser draws the timelines,
// from the same stories as the terminal.
func HTML(w io.Writer, r lab.Report, s Style) error {
	own := page.File("cell.js", "page.js") // the lanes say what they are told to
	views, reports := []view{newView(s, r)}, []lab.Report{r}
	for _, part := range s.Parts(r) {
		v := newView(s, part.Report)
		v.Title = part.Title
		views, reports = append(views, v), append(reports, part.Report)
	}
	all := newData(s, reports...)
	all.Words = s.Words(own)
	return page.Write(w, s.Style, page.File("style.css"), page.File("lanes.js")+own,
		map[string]any{"Views": views, "Data": all})
}

// Part is a table beside the first one of a report.
type Part struct {
	Title  string
	Report lab.Report
}

// Parts returns the tables beside the first one, in their order.
func (s Style) Parts(r lab.Report) (parts []Part) {
	if r.Holds != nil {
		parts = append(parts, Part{s.Say("A sale by holds"), *r.Holds})
	}
	if r.Behind != nil {
		parts = append(parts, Part{s.Say("Repairs, and orders written behind the sale"), *r.Behind})
	}
	return parts
}

// Lanes returns the JavaScript module that draws a timeline in lanes, also used
// by the report that HTML writes. It draws what Story returns.
func Lanes() []byte { return []byte(page.File("lanes.js")) }

// Told is a cell with its timeline, as the page asks for it. Its JSON form is relied upon.
type Told struct {
	lab.Cell
	Story any `json:"story"`
}

// Tell returns a cell with its Story.
func Tell(m lab.Manifest, c lab.Cell) Told { return Told{c, Story(m, c)} }

// Story returns a cell and its timeline, worked out moment by moment, in the
// form from which the module of Lanes draws, to be marshalled as JSON.
func Story(m lab.Manifest, c lab.Cell) any {
	return newDataCell(Style{}, m, c, tell(c).shorten(rowLimits[0]))
}
