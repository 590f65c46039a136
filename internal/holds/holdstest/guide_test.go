package holdstest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var stages = []string{"h1_counter", "h2_status", "h3_claim"}

// maxLines bounds a file of a stage: each is read in one go.
const maxLines = 150

// lines returns the lines of a stage's file, none if there is no such file.
func lines(t *testing.T, stage, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", stage, name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// files returns the names of the stages' files, tests aside.
func files(t *testing.T, stages ...string) []string {
	t.Helper()
	var names []string
	for _, stage := range stages {
		paths, err := filepath.Glob(filepath.Join("..", stage, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s has %d files, %v", stage, len(paths), err)
		}
		for _, path := range paths {
			if name := filepath.Base(path); !strings.HasSuffix(name, "_test.go") {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestStagesAreShort(t *testing.T) {
	for _, stage := range stages {
		for _, name := range files(t, stage) {
			if n := len(lines(t, stage, name)); n > maxLines {
				t.Errorf("%s/%s has %d lines; want %d at most", stage, name, n, maxLines)
			}
		}
	}
}

// The stages have the same tests, so that what one breaks can be looked up in the next.
func TestStagesHaveTheSameTests(t *testing.T) {
	tests := func(stage string) (names []string) {
		for _, line := range lines(t, stage, "stage_test.go") {
			if name, ok := strings.CutPrefix(line, "func Test"); ok {
				name, _, _ = strings.Cut(name, "(")
				names = append(names, name)
			}
		}
		return names
	}
	want := tests(stages[0])
	for _, stage := range stages[1:] {
		if got := tests(stage); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s has the tests %v, want %v", stage, got, want)
		}
	}
}

// A stage can be copied alone: it imports the types and nothing else of the project.
func TestStagesImportOnlyTheTypes(t *testing.T) {
	for _, stage := range stages {
		for _, name := range files(t, stage) {
			for _, line := range lines(t, stage, name) {
				if strings.Contains(line, `"oversell/`) && strings.TrimSpace(line) != `"oversell/internal/holds"` {
					t.Errorf("%s/%s imports %s", stage, name, strings.TrimSpace(line))
				}
			}
		}
	}
}
