package show

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"

	"oversell/internal/lab"
)

//go:embed page
var assets embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(template.FuncMap{"t": Style{}.Say}).ParseFS(assets, "page/page.html"))

// said finds what a script says in English.
var said = regexp.MustCompile(`\bsay\("([^"]+)"`)

// words translates what the scripts say. It returns nil for English.
func (s Style) words(script string) map[string]string {
	if s.Language == nil {
		return nil
	}
	words := make(map[string]string)
	for _, m := range said.FindAllStringSubmatch(script, -1) {
		words[m[1]] = s.Say(m[1])
	}
	return words
}

// HTML writes the report as one file that is opened from disk and needs no
// network: the matrix, and for each cell its timeline. The matrix is rendered
// here, so that it is shown without a script; the browser draws the timelines,
// from the same stories as the terminal.
func HTML(w io.Writer, r lab.Report, s Style) error {
	style := asset("style.css")
	own := asset("cell.js") + asset("page.js") // the lanes say what they are told to
	script := asset("lanes.js") + own
	views, reports := []view{newView(s, r)}, []lab.Report{r}
	for _, part := range s.Parts(r) {
		v := newView(s, part.Report)
		v.Title = part.Title
		views, reports = append(views, v), append(reports, part.Report)
	}
	page, err := pageTemplate.Clone()
	if err != nil {
		return fmt.Errorf("drawing the page: %w", err)
	}
	all := newData(s, reports...)
	all.Words = s.words(own)
	var b strings.Builder
	err = page.Funcs(template.FuncMap{"t": s.Say}).Execute(&b, map[string]any{
		"Style":  template.CSS(style),
		"Script": template.JS(script),
		"Policy": policy(style, script),
		"Views":  views,
		"Data":   all,
		"Tag":    s.tag(),
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
