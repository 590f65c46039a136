// Package site writes the page as a folder of files that any web server can serve without a shop.
// The folder contains recorded replies of a shop, and the lab compiled for a browser.
package site

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"oversell/internal/atomicfile"
)

// Config describes the contents of a site.
type Config struct {
	Dir     string
	Page    http.Handler      // the page of a shop, whose replies are recorded
	Files   map[string][]byte // the page's files, with index.html, by their paths in Dir
	Replies map[string]any    // replies that do not come from Page, by their paths
	Lab     Lab
	Version string // of the program
}

// manifest is the file that marks a folder as a site, and describes it to the page.
type manifest struct {
	Kind    string    `json:"kind"`
	Version string    `json:"version"`
	Made    time.Time `json:"made"`
	WASM    wasm      `json:"wasm"`
}

// wasm describes the compiled lab. Its files have a hash in their names, because browsers and
// servers cache files, and a lab only works with the script of the same Go version.
type wasm struct {
	File     string `json:"file"`     // in the folder
	Start    string `json:"start"`    // the script that starts it
	Bytes    int    `json:"bytes"`    // of File, which is compressed
	Unpacked int    `json:"unpacked"` // bytes
}

func (l Lab) files() wasm {
	hash := sha256.New()
	hash.Write(l.Packed)
	hash.Write(l.Start)
	id := hex.EncodeToString(hash.Sum(nil))[:12]
	return wasm{"wasm/lab-" + id + ".wasm.gz", "wasm/start-" + id + ".js", len(l.Packed), l.Unpacked}
}

const (
	kind         = "oversell site"
	manifestFile = "site.json"
)

// ErrTaken is wrapped by the error about a folder that has files and is not a site.
var ErrTaken = errors.New("it has files, and is no site that this program wrote")

// Check returns an error if a site cannot be written to dir, because dir is not a folder or has
// other files (ErrTaken).
func Check(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking into the folder of the site: %w", err)
	}
	var m manifest
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil || json.Unmarshal(text, &m) != nil || m.Kind != kind {
		return fmt.Errorf("%s: %w", dir, ErrTaken)
	}
	return nil
}

// Written holds the size of a written site.
type Written struct {
	Files int
	Bytes int64
	Lab   int // bytes of the compressed lab
}

// Write writes a site, and removes files of an older site that are no longer needed. Each file is
// written completely or not at all.
func Write(ctx context.Context, cfg Config) (Written, error) {
	w := &writer{dir: cfg.Dir, there: make(map[string]bool)}
	if err := w.all(ctx, cfg); err != nil {
		return Written{}, fmt.Errorf("writing the site: %w", err)
	}
	return Written{Files: len(w.there), Bytes: w.bytes, Lab: len(cfg.Lab.Packed)}, nil
}

// writer writes the files of one site.
type writer struct {
	dir   string
	there map[string]bool // paths of files that were written
	bytes int64
}

func (w *writer) all(ctx context.Context, cfg Config) error {
	if err := Check(cfg.Dir); err != nil {
		return err
	}
	// The manifest is written first, so that an unfinished site can be overwritten.
	m := manifest{kind, cfg.Version, time.Now().UTC().Truncate(time.Second), cfg.Lab.files()}
	if err := w.json(manifestFile, m); err != nil {
		return err
	}
	index, err := marked(cfg.Files["index.html"])
	if err != nil {
		return err
	}
	files := map[string][]byte{m.WASM.File: cfg.Lab.Packed, m.WASM.Start: cfg.Lab.Start}
	for name, text := range cfg.Files {
		files[name] = text
	}
	files["index.html"] = index
	for name, text := range files {
		if err := w.file(name, text); err != nil {
			return err
		}
	}
	for path, reply := range cfg.Replies {
		if err := w.json(recordingOf(path), reply); err != nil {
			return err
		}
	}
	if err := w.record(ctx, cfg.Page); err != nil {
		return err
	}
	return w.prune()
}

// recordingOf returns the name of the file with the reply to a GET of path.
func recordingOf(path string) string { return strings.TrimPrefix(path, "/") + ".json" }

// policy is the shop's content security policy, without the directives that only work in a header.
const policy = `<meta http-equiv="Content-Security-Policy" ` +
	`content="default-src 'self'; base-uri 'none'; form-action 'self'; object-src 'none'">`

// marked adds to index.html the attribute by which the page's api.js recognises a site, and the
// policy that a shop sends as a header.
func marked(index []byte) ([]byte, error) {
	for _, change := range []struct{ where, more string }{
		{`<html lang="en"`, ` data-site`}, {`<meta charset="utf-8">`, "\n" + policy},
	} {
		if bytes.Count(index, []byte(change.where)) != 1 {
			return nil, fmt.Errorf("index.html has not one %s", change.where)
		}
		index = bytes.Replace(index, []byte(change.where), []byte(change.where+change.more), 1)
	}
	return index, nil
}

func (w *writer) json(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return w.file(name, text)
}

func (w *writer) file(name string, text []byte) error {
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	w.there[path] = true
	w.bytes += int64(len(text))
	return atomicfile.Write(path, func(to io.Writer) error {
		_, err := to.Write(text)
		return err
	})
}

// prune removes files of an older site. It only looks into the site's own folders.
func (w *writer) prune() error {
	for _, own := range []string{"api", "page", "wasm"} {
		err := filepath.WalkDir(filepath.Join(w.dir, own), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || w.there[path] {
				return err
			}
			return os.Remove(path)
		})
		if err != nil {
			return fmt.Errorf("removing what an older site had: %w", err)
		}
	}
	return nil
}
