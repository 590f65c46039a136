package locks_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

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

func TestEverySourceFolderIsAStrategy(t *testing.T) {
	folders, err := fs.ReadDir(locks.Sources(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if _, err := locks.Strategies().Find(f.Name()); err != nil {
			t.Error(err)
		}
	}
}
