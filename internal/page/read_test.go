package page_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/locks"
	"oversell/internal/page"
)

func newRead(t *testing.T) http.Handler {
	t.Helper()
	h, err := page.Read()
	must(t, err)
	return h
}

type readStage struct {
	Name, Before, Adds, Breaks string
	Files                      []struct{ Name, Text, Diff string }
}

func readStages(t *testing.T) []readStage {
	t.Helper()
	w := get(newRead(t), "/api/stages")
	var got struct{ Stages []readStage }
	if err := json.Unmarshal(w.Body.Bytes(), &got); w.Code != http.StatusOK || err != nil {
		t.Fatalf("got %d, %v: %.200s", w.Code, err, w.Body)
	}
	return got.Stages
}

func TestReadHasTheFilesOfEachStage(t *testing.T) {
	var names []string
	for _, s := range readStages(t) {
		names = append(names, s.Name)
		known, err := catalog.Strategies().Find(s.Name)
		if err != nil || s.Adds != known.Adds || s.Breaks != known.Breaks {
			t.Errorf("%s is not described as in the catalog (%v)", s.Name, err)
		}
		want, err := fs.Glob(locks.Sources(), s.Name+"/*")
		must(t, err)
		var files []string
		for _, f := range s.Files {
			if f.Text == "" {
				continue // only the previous stage has this file
			}
			name := path.Join(s.Name, f.Name)
			files = append(files, name)
			if text, err := fs.ReadFile(locks.Sources(), name); err != nil || f.Text != string(text) {
				t.Errorf("%s is not as it is in the folder (%v)", name, err)
			}
		}
		if !slices.Equal(files, want) {
			t.Errorf("%s has the files %v, want %v", s.Name, files, want)
		}
	}
	if !slices.Equal(names, locks.Stages()) {
		t.Errorf("stages %v, want %v", names, locks.Stages())
	}
	stages := readStages(t)
	for i, s := range stages[1:] {
		f := s.Files[0]
		head := "--- " + path.Join(s.Before, f.Name) + "\n+++ " + path.Join(s.Name, f.Name) + "\n"
		if s.Before != stages[i].Name || f.Diff != "" && !strings.HasPrefix(f.Diff, head) {
			t.Errorf("%s is compared with %q: %.200s", s.Name, s.Before, f.Diff)
		}
	}
}
