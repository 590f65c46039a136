package site_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/site"
)

const index = `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
</head>
</html>
`

// shop replies as a shop does to its page, with one cell and one run.
func shop(w http.ResponseWriter, r *http.Request) {
	replies := map[string]string{
		"/api/lab": `{"cells":[{"anomaly":"a","strategy":"s"}]}`, "/api/lab/a/s": `{"cell":1}`,
		"/api/stages": `{"stages":1}`,
		"/api/runs":   `{"runs":[{"id":"r1"}]}`, "/api/runs/r1": `{"run":1}`, "/api/runs/r1/report.html": "a report ",
		"/api/runs/options":    `{"options":1}`,
		"/api/schedule/levels": `{"levels":1}`, "/api/schedule/record": `{"record":1}`,
	}
	text, ok := replies[r.URL.Path]
	text += r.URL.Query().Get("lang")
	if !ok {
		w.WriteHeader(http.StatusNotFound)
	}
	fmt.Fprint(w, text)
}

func config(dir string) site.Config {
	return site.Config{
		Dir: dir, Page: http.HandlerFunc(shop),
		Files:   map[string][]byte{"index.html": []byte(index), "page/app.js": []byte("app")},
		Replies: map[string]any{"/api/strategies": []string{"none"}},
		Lab:     site.Lab{Packed: []byte("packed"), Unpacked: 9, Start: []byte("start")},
	}
}

func write(t *testing.T, cfg site.Config) site.Written {
	t.Helper()
	written, err := site.Write(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func read(t *testing.T, elem ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each reply is stored in a file named after its path, and the page is marked as a static site.
func TestRepliesAreFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "site")
	written := write(t, config(dir))
	for name, want := range map[string]string{
		"api/lab/a/s.json": `{"cell":1}`, "api/stages.json": `{"stages":1}`, "api/runs/r1.json": `{"run":1}`,
		"api/runs/r1/report.html":    "a report en",
		"api/runs/r1/report.zh.html": "a report zh",
		"api/schedule/record.json":   `{"record":1}`, "api/strategies.json": `["none"]`, "page/app.js": "app",
	} {
		if got := read(t, dir, name); got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
	got := read(t, dir, "index.html")
	if !strings.Contains(got, `<html lang="en" data-site>`) || !strings.Contains(got, "default-src 'self'") {
		t.Errorf("the page is %s", got)
	}
	files := 0
	if err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files++
		}
		return err
	}); err != nil || files != written.Files {
		t.Errorf("%d files are there, and %d are reported: %v", files, written.Files, err)
	}
}

// Writing a site again removes the files of the old site, and no other files.
func TestOldFilesGo(t *testing.T) {
	dir := t.TempDir()
	write(t, config(dir))
	own := filepath.Join(dir, "CNAME")
	old := filepath.Join(dir, "api", "lab", "gone.json")
	for _, name := range []string{own, old} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := config(dir)
	next.Lab.Packed = []byte("another")
	write(t, next)
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of the older site: %v", err)
	}
	if labs, err := filepath.Glob(filepath.Join(dir, "wasm", "lab-*")); err != nil || len(labs) != 1 {
		t.Errorf("there are %v, %v", labs, err)
	}
	if _, err := os.Stat(own); err != nil {
		t.Errorf("a file that is not the site's: %v", err)
	}
}

func TestErrors(t *testing.T) {
	taken := t.TempDir()
	if err := os.WriteFile(filepath.Join(taken, "site.json"), []byte(`{"kind":"something else"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := site.Write(t.Context(), config(taken)); !errors.Is(err, site.ErrTaken) {
		t.Errorf("in a folder of somebody else: %v", err)
	}
	unmarked := config(t.TempDir())
	unmarked.Files["index.html"] = []byte("<html>")
	if _, err := site.Write(t.Context(), unmarked); err == nil {
		t.Error("a page without a place for the mark is written")
	}
	broken := config(t.TempDir())
	broken.Page = http.NotFoundHandler()
	if _, err := site.Write(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("with a page that does not reply: %v", err)
	}
}
