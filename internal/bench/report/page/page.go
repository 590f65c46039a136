// Package page draws a bench report as one HTML file that is opened from disk and needs
// no network: the table, plots, and the figures as JSON to download.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strings"

	"oversell/internal/bench/report"
)

//go:embed assets
var assets embed.FS

var pageTemplate = template.Must(template.New("page.html").Funcs(functions(report.Style{})).ParseFS(assets, "assets/page.html"))

// functions are those of the template: t translates.
func functions(s report.Style) template.FuncMap { return template.FuncMap{"t": s.Say, "tf": s.Sayf} }

// said finds what a script says in English.
var said = regexp.MustCompile(`\bsay\("([^"]+)"`)

// words translates what the scripts say. It returns nil for English.
func words(s report.Style, script string) map[string]string {
	if s.Language == nil {
		return nil
	}
	all := make(map[string]string)
	for _, m := range said.FindAllStringSubmatch(script, -1) {
		all[m[1]] = s.Say(m[1])
	}
	return all
}

// HTML writes the report, in the language of the style. The table is drawn here, so that it needs no script; the
// browser draws the plots from medians and intervals that are computed here.
func HTML(w io.Writer, r report.Report, s report.Style) error {
	var raw bytes.Buffer
	if err := r.WriteJSON(&raw); err != nil {
		return err
	}
	style := asset("uplot/uPlot.min.css") + asset("style.css")
	own := asset("charts.js") + asset("page.js")
	script := asset("uplot/uPlot.iife.min.js") + own
	page, err := pageTemplate.Clone()
	if err != nil {
		return fmt.Errorf("drawing the page: %w", err)
	}
	drawn := newPlots(r, s)
	drawn.Words = words(s, own)
	var b strings.Builder
	err = page.Funcs(functions(s)).Execute(&b, map[string]any{
		"Style":  template.CSS(style),
		"Script": template.JS(script),
		"Policy": policy(style, script),
		"View":   newView(r, s),
		"Plots":  drawn,
		"Tag":    s.Tag(),
		"Report": json.RawMessage(raw.Bytes()),
	})
	if err != nil {
		return fmt.Errorf("drawing the page: %w", err)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// policy is the page's content security policy: this style, this script, and nothing
// else. Even if a text of a report got through as markup, it would not run.
func policy(style, script string) string {
	return "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " + hash(style) + "; script-src " + hash(script)
}

func hash(inline string) string {
	sum := sha256.Sum256([]byte(inline))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func asset(name string) string {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(b)
}
