package show

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"oversell/internal/lab"
)

//go:embed page
var assets embed.FS

var pageTemplate = template.Must(template.ParseFS(assets, "page/page.html"))

// HTML writes the report as one file that is opened from disk and needs no
// network: the matrix, and for each cell its timeline. The matrix is rendered
// here, so that it is shown without a script; the browser draws the timelines,
// from the same stories as the terminal.
func HTML(w io.Writer, r lab.Report) error {
	style := asset("style.css")
	script := asset("lanes.js") + asset("cell.js") + asset("page.js")
	views, reports := []view{newView(r)}, []lab.Report{r}
	for _, part := range Parts(r) {
		v := newView(part.Report)
		v.Title = part.Title
		views, reports = append(views, v), append(reports, part.Report)
	}
	var b strings.Builder
	err := pageTemplate.Execute(&b, map[string]any{
		"Style":  template.CSS(style),
		"Script": template.JS(script),
		"Policy": policy(style, script),
		"Views":  views,
		"Data":   newData(reports...),
	})
	if err != nil {
		return fmt.Errorf("drawing the page: %w", err)
	}
	return write(w, "page", b.String())
}

// policy is the page's content security policy: this style, this script, and
// nothing from anywhere else. If text of a report were ever inserted as markup,
// its scripts would still not run.
func policy(style, script string) string {
	return "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(style) + "; script-src " + hash(script)
}

func hash(inline string) string {
	sum := sha256.Sum256([]byte(inline))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func asset(name string) string {
	b, err := assets.ReadFile("page/" + name)
	if err != nil {
		panic(err) // cannot happen, because it is embedded
	}
	return string(b)
}
