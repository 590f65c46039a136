package holdstest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var stages = []string{"h1_counter", "h2_status", "h3_claim"}

// lines returns the lines of a stage's file.
func lines(t *testing.T, stage, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", stage, name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
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
		for _, line := range lines(t, stage, "stage.go") {
			if strings.Contains(line, `"oversell/`) && strings.TrimSpace(line) != `"oversell/internal/holds"` {
				t.Errorf("%s imports %s", stage, strings.TrimSpace(line))
			}
		}
	}
}
