package page_test

import (
	"encoding/json"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/locks"
	"oversell/internal/page"
)

func TestReadHasTheFilesOfEachStage(t *testing.T) {
	var got struct {
		Stages []struct {
			Name, Before, Adds, Breaks string
			Files                      []struct{ Name, Text, Diff string }
		}
	}
	w := get(newPage(t, page.Config{}), "/api/stages")
	must(t, json.Unmarshal(w.Body.Bytes(), &got))
	var names []string
	for _, s := range got.Stages {
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
	for i, s := range got.Stages[1:] {
		f := s.Files[0]
		head := "--- " + path.Join(s.Before, f.Name) + "\n+++ " + path.Join(s.Name, f.Name) + "\n"
		if s.Before != got.Stages[i].Name || f.Diff != "" && !strings.HasPrefix(f.Diff, head) {
			t.Errorf("%s is compared with %q: %.200s", s.Name, s.Before, f.Diff)
		}
	}
}
