package holdstest_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// A stage can be copied into another project: it imports only the package of the types from this one.
func TestStagesImportOnlyTheTypes(t *testing.T) {
	paths, err := filepath.Glob("../h?_*/stage.go")
	if err != nil || len(paths) != 3 {
		t.Fatalf("the stages are %v, %v; want three", paths, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); bytes.Contains(line, []byte(`"oversell/`)) &&
				string(line) != `"oversell/internal/holds"` {
				t.Errorf("%s imports %s", path, line)
			}
		}
	}
}
