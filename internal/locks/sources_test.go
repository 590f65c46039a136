package locks_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"oversell/internal/catalog"
	"oversell/internal/lab"
	"oversell/internal/locks"
)

func TestSourcesAreAllButTheTests(t *testing.T) {
	want, err := filepath.Glob("v[0-9]_*/*")
	if err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(name string) bool {
		ext := path.Ext(name)
		return ext != ".go" && ext != ".lua" || strings.HasSuffix(name, "_test.go")
	})
	got, err := fs.Glob(locks.Sources(), "*/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("in the binary are %v; want %v", got, want)
	}
	for _, name := range got {
		text, err := fs.ReadFile(locks.Sources(), name)
		if err != nil {
			t.Fatal(err)
		}
		if there, err := os.ReadFile(filepath.FromSlash(name)); err != nil || string(text) != string(there) {
			t.Errorf("%s is not in the binary as it is on disk: %v", name, err)
		}
	}
}

// Every list of the stages contains all stages, in the same order.
func TestEveryListHasTheStages(t *testing.T) {
	var subjects []string
	for _, s := range lab.Subjects() {
		subjects = append(subjects, s.Name)
	}
	for what, names := range map[string][]string{
		"the catalog": catalog.Strategies().Names(), "the lab": subjects, "the scheduler": lab.Levels(),
	} {
		got := slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(locks.Stages(), name) })
		if !slices.Equal(got, locks.Stages()) {
			t.Errorf("%s has the stages %v; want %v", what, got, locks.Stages())
		}
	}
}
