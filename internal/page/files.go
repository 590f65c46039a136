package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"oversell/internal/bench/report"
	"oversell/internal/lab/show"
	"oversell/internal/page/texts"
	"oversell/internal/web/problem"
)

//go:embed assets
var assets embed.FS

// types lists the media types of the files, because those of the operating system may differ.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".json": "application/json; charset=utf-8",
	".svg":  "image/svg+xml",
	".md":   "text/plain; charset=utf-8",
	"":      "text/plain; charset=utf-8",
}

// file is content that does not change while the program runs: a file of the page, or JSON.
type file struct {
	kind   string
	tag    string // the ETag of plain
	plain  []byte
	packed []byte // plain compressed with gzip; nil if that is not smaller
}

// files holds the files of the page by their paths.
type files map[string]file

// Files returns the files of the page for a site without a shop, by their paths below its root.
// They refer to each other by relative addresses. Besides the assets, they are the files that the
// page shares with the terminal and the offline reports: the texts, the lab's lanes, and the library
// of the bench's plots.
func Files() (map[string][]byte, error) {
	own, err := fs.Sub(assets, "assets")
	if err != nil {
		return nil, err
	}
	all := map[string][]byte{"page/lanes.js": show.Lanes()}
	for dir, from := range map[string]fs.FS{
		"page": own, "page/uplot": report.UPlot(), "page/texts": texts.OfPage(),
	} {
		names, err := fs.Glob(from, "*")
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if all[path.Join(dir, name)], err = fs.ReadFile(from, name); err != nil {
				return nil, fmt.Errorf("reading the page's files: %w", err)
			}
		}
	}
	all["index.html"] = all["page/index.html"]
	delete(all, "page/index.html")
	return all, nil
}

// newFiles compresses the files. index.html is at /.
func newFiles() (files, error) {
	plain, err := Files()
	if err != nil {
		return nil, err
	}
	all := make(files)
	for name, text := range plain {
		kind, ok := types[path.Ext(name)]
		if !ok {
			return nil, fmt.Errorf("%s: unknown media type", name)
		}
		all["/"+strings.TrimSuffix(name, "index.html")] = pack(kind, text)
	}
	return all, nil
}

// pack makes a file, which is served compressed to clients that accept gzip.
func pack(kind string, plain []byte) file {
	f := file{kind: kind, tag: fmt.Sprintf("%x", sha256.Sum256(plain)), plain: plain}
	var packed bytes.Buffer
	w, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression) // it fails only for an unknown level
	_, _ = w.Write(plain)                                      // a Buffer does not fail
	_ = w.Close()
	if packed.Len() < len(plain) {
		f.packed = packed.Bytes()
	}
	return f
}

// packJSON makes a file from v as JSON.
func packJSON(v any) (file, error) {
	text, err := json.Marshal(v)
	return pack(types[".json"], text), err
}

// ServeHTTP serves the file at a path.
func (all files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := all[r.URL.Path]
	switch {
	case !ok:
		problem.NoSuchPath(w)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		problem.WrongMethod(w, "GET, HEAD")
	default:
		f.ServeHTTP(w, r)
	}
}

// ServeHTTP serves the file to a GET or a HEAD.
func (f file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, tag := f.plain, f.tag
	if f.packed != nil {
		w.Header().Set("Vary", "Accept-Encoding")
		if takesGzip(r) {
			w.Header().Set("Content-Encoding", "gzip")
			body, tag = f.packed, f.tag+"-gzip"
		}
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("ETag", `"`+tag+`"`)
	w.Header().Set("Cache-Control", "no-cache") // revalidate: the next release may differ
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

// takesGzip reports whether a client accepts gzip, with any weight but 0.
func takesGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(part, ";")
		if strings.TrimSpace(name) == "gzip" {
			return strings.Trim(strings.TrimPrefix(strings.TrimSpace(weight), "q="), "0.") != "" || weight == ""
		}
	}
	return false
}
