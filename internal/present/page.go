package present

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"regexp"
	"strings"
)

// Page is a page of one file that is opened from disk and needs no network.
type Page struct {
	template *template.Template
	files    fs.FS
}

// head is the beginning of each page, up to the end of its head.
//
//go:embed head.html
var head string

// NewPage returns the page whose template is dir/page.html. That template defines "title", and begins
// with the template "head". In it, the function t translates a text, tf a format, and title the title of
// a column.
func NewPage(files fs.FS, dir string) Page {
	files, err := fs.Sub(files, dir)
	if err != nil {
		panic(err) // the folder is embedded, as are its files
	}
	page := template.New("page.html").Funcs(functions(Style{}))
	template.Must(page.New("head").Parse(head))
	return Page{template.Must(page.ParseFS(files, "page.html")), files}
}

func functions(s Style) template.FuncMap {
	return template.FuncMap{"t": s.Say, "tf": s.Sayf, "title": s.Title}
}

// File returns the text of some of the page's files, one after the other.
func (p Page) File(names ...string) string {
	var all strings.Builder
	for _, name := range names {
		text, err := fs.ReadFile(p.files, name)
		if err != nil {
			panic(err)
		}
		all.Write(text)
	}
	return all.String()
}

// Write writes the page with its style and script, and the data of its template.
func (p Page) Write(w io.Writer, s Style, style, script string, data map[string]any) error {
	page, err := p.template.Clone()
	if err != nil {
		return fmt.Errorf("drawing the page: %w", err)
	}
	data["Style"], data["Script"] = template.CSS(style), template.JS(script)
	data["Policy"], data["Tag"] = policy(style, script), s.Tag()
	var b strings.Builder
	if err := page.Funcs(functions(s)).Execute(&b, data); err != nil {
		return fmt.Errorf("drawing the page: %w", err)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// said finds the English texts in a script.
var said = regexp.MustCompile(`\bsay\("([^"]+)"`)

// Words translates the English texts in a script. It returns nil for English.
func (s Style) Words(script string) map[string]string {
	if s.Language == nil {
		return nil
	}
	words := make(map[string]string)
	for _, m := range said.FindAllStringSubmatch(script, -1) {
		words[m[1]] = s.Say(m[1])
	}
	return words
}

// policy returns the page's content security policy, which allows only this style and this script.
// Even if a text of a report got through as markup, it would not run.
func policy(style, script string) string {
	return "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src " +
		hash(style) + "; script-src " + hash(script)
}

func hash(inline string) string {
	sum := sha256.Sum256([]byte(inline))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
