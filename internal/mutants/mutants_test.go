package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// mutated returns the text of the mutant's file with the fault applied.
func mutated(t *testing.T, m mutant) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, m.path()))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), m.Old); n != 1 || m.Old == m.New {
		t.Errorf("%s has %d times %q, which is to be replaced by %q: bring internal/mutants/list_test.go up to date", m.path(), n, m.Old, m.New)
	}
	return strings.Replace(string(b), m.Old, m.New, 1)
}

func TestEachFaultCanBePutIn(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range all() {
		mutated(t, m)
		if id := m.path() + m.Old + m.New; seen[id] || m.Breaks == "" {
			t.Errorf("%s: %q is there twice, or does not say what it breaks", m.path(), m.Old)
		} else {
			seen[id] = true
		}
	}
}
