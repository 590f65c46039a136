package page_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
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
	if err != nil {
		t.Fatal(err)
	}
	return h
}

type readStage struct {
	Name, Before, Adds, Breaks string
	Files                      []struct{ Name, Text, Diff string }
}

func readStages(t *testing.T) []readStage {
	t.Helper()
	w := askPage(newRead(t), "GET", "/api/stages")
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
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for _, f := range s.Files {
			if f.Text == "" {
				continue // only the stage before has it
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
}

// A diff adds lines of the stage and removes lines of the one before. The first stage has files
// only.
func TestReadComparesEachStageWithTheOneBefore(t *testing.T) {
	before, old := "", map[string]string{}
	for _, s := range readStages(t) {
		if s.Before != before {
			t.Errorf("%s is compared with %q, want %q", s.Name, s.Before, before)
		}
		now := make(map[string]string)
		for _, f := range s.Files {
			now[f.Name] = f.Text
			if before == "" || f.Text == old[f.Name] {
				if f.Diff != "" {
					t.Errorf("%s/%s has a diff:\n%s", s.Name, f.Name, f.Diff)
				}
				continue
			}
			head := fmt.Sprintf("--- %s/%s\n+++ %s/%s\n", before, f.Name, s.Name, f.Name)
			changes, ok := strings.CutPrefix(f.Diff, head)
			if !ok {
				t.Errorf("the diff begins %.80q, want %q", f.Diff, head)
			}
			more := strings.Count(f.Text, "\n") - strings.Count(old[f.Name], "\n")
			for line := range strings.Lines(changes) {
				in := old[f.Name]
				switch line[0] {
				case '+':
					in = f.Text
					more--
				case '-':
					more++
				default:
					continue
				}
				if !strings.Contains(in, line[1:]) {
					t.Errorf("the diff of %s/%s has the line %q", s.Name, f.Name, line)
				}
			}
			if more != 0 {
				t.Errorf("the diff of %s/%s lacks changes:\n%s", s.Name, f.Name, f.Diff)
			}
		}
		for name := range old {
			if _, ok := now[name]; !ok {
				t.Errorf("%s/%s is gone, and no diff says so", s.Name, name)
			}
		}
		maps.DeleteFunc(now, func(_, text string) bool { return text == "" })
		before, old = s.Name, now
	}
}

func TestReadIsSentOnceAndSmall(t *testing.T) {
	h := newRead(t)
	text := askPage(h, "GET", "/api/stages")
	tag := text.Header().Get("ETag")
	other := newRead(t) // as another instance, or after a restart
	if w := askPage(other, "GET", "/api/stages", "If-None-Match", tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 {
		t.Errorf("asked for again, it is %d with %d bytes; want 304 and none", w.Code, w.Body.Len())
	}
	packed := askPage(h, "GET", "/api/stages", "Accept-Encoding", "gzip")
	if packed.Header().Get("Content-Encoding") != "gzip" || packed.Body.Len() > 60_000 {
		t.Errorf("it is %d bytes of %d, %v", packed.Body.Len(), text.Body.Len(), packed.Header())
	}
}

func TestReadRefusesOtherRequests(t *testing.T) {
	h := newRead(t)
	for _, tt := range []struct {
		method, path string
		status       int
	}{
		{"POST", "/api/stages", http.StatusMethodNotAllowed},
		{"GET", "/api/stages?name=v1", http.StatusBadRequest},
		{"GET", "/api/stages/v1_setnx", http.StatusNotFound},
	} {
		if w := askPage(h, tt.method, tt.path); w.Code != tt.status || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, w.Code, w.Body)
		}
	}
}
