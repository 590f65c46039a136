package mutants

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../.."

// edit replaces the text old in a file by the text new.
type edit struct{ path, old, new string }

// mutated returns the text of the file after the edit.
func mutated(t *testing.T, e edit) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, e.path))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), e.old); n != 1 || e.old == e.new {
		t.Errorf("%s has %d times %q, which is to be replaced by %q: bring the lists in internal/mutants up to date",
			e.path, n, e.old, e.new)
	}
	return strings.Replace(string(b), e.old, e.new, 1)
}

func TestEachFaultCanBePutIn(t *testing.T) {
	breaks := map[edit]string{}
	add := func(e edit, what string) {
		mutated(t, e)
		if _, twice := breaks[e]; twice || what == "" {
			t.Errorf("%s: %q is there twice, or does not say what it breaks", e.path, e.old)
		}
		breaks[e] = what
	}
	for _, m := range all() {
		add(m.edit(), m.Breaks)
	}
	for _, m := range ofSales() {
		add(m.edit(), m.Breaks)
	}
}

// Each sale mutant names a test that exists.
func TestFaultsOfSalesNameTheirTests(t *testing.T) {
	for _, m := range ofSales() {
		found := false
		files, err := filepath.Glob(filepath.Join(root, m.tests(), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := strings.Cut(m.Test, "/")
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(b), "func "+name+"(t *testing.T)")
		}
		if !found {
			t.Errorf("%s has no %s, which is to notice that %s", m.tests(), name, m.Breaks)
		}
	}
}
