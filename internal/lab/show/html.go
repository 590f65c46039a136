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
	return page.Write(w, s.Style, page.File("style.css"), page.File("lanes.js")+own, map[string]any{"Views": views, "Data": all})
}
