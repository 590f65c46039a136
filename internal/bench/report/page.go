package report

import (
	"bytes"
	"embed"
	"io"
	"io/fs"

	"oversell/internal/present"
)

//go:embed assets
var assets embed.FS

var page = present.NewPage(assets, "assets")

// WriteHTML writes the report as one file that is opened from disk and needs no network: the table,
// plots, and the figures as JSON to download. The table needs no script; the browser draws the plots
// from medians and intervals that are computed here.
func (r Report) WriteHTML(w io.Writer, s present.Style) error {
	var raw bytes.Buffer
	if err := r.WriteJSON(&raw); err != nil {
		return err
	}
	own := page.File("charts.js", "page.js")
	drawn := r.plots(s)
	drawn.Words = s.Words(own)
	style, script := page.File("uplot/uPlot.min.css", "style.css"), page.File("uplot/uPlot.iife.min.js")+own
	return page.Write(w, s, style, script, r.view(s, drawn, raw.Bytes()))
}

// UPlot returns the files of the plotting library and its licence, for other pages that plot.
func UPlot() fs.FS {
	files, err := fs.Sub(assets, "assets/uplot")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return files
}
