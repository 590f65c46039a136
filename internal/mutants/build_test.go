//go:build mutants

package mutants

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// only selects mutants, as in: go test -tags mutants ./internal/mutants -args -only v7_queue
var only = flag.String("only", "", "`regexp` of the mutants to build, by file and by what they break")

// A test of its stage fails with each mutant of a lock. Without a fault, all of them pass.
func TestMutantsAreNoticed(t *testing.T) {
	var list []fault
	for _, m := range all() {
		list = append(list, fault{m.edit(), m.Breaks, path.Dir(m.path()), ".*"})
	}
	mustBeNoticed(t, list)
}

// The test that a sale mutant names fails with the fault, and passes without it.
func TestMutantsOfSalesAreNoticed(t *testing.T) {
	var list []fault
	for _, m := range ofSales() {
		list = append(list, fault{m.edit(), m.Breaks, m.tests(), m.Test})
	}
	mustBeNoticed(t, list)
}

// fault is a mutant with the tests that are to notice it: those in the folder that match test.
type fault struct {
	edit
	breaks, folder, test string
}

func mustBeNoticed(t *testing.T, faults []fault) {
	pick, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	text := t.TempDir()
	sound := map[string]bool{}
	for _, f := range faults {
		if !pick.MatchString(f.path + " " + f.breaks) {
			continue
		}
		if id := f.folder + f.test; !sound[id] {
			sound[id] = true
			if out, code := f.run(t, nil); code != 0 {
				t.Fatalf("%s of %s fails without a fault:\n%s", f.test, f.folder, out)
			}
		}
		mutant := filepath.Join(text, "mutant"+path.Ext(f.path))
		if err := os.WriteFile(mutant, []byte(mutated(t, f.edit)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, code := f.run(t, map[string]string{inModule(t, f.path): mutant})
		failed := failure.FindString(out)
		if code != 1 || failed == "" {
			t.Errorf("%s of %s does not notice that %s: %q instead of %q in %s\n%s", f.test, f.folder, f.breaks, f.new,
				f.old, f.path, out)
			continue
		}
		t.Logf("%s: %s notices that %s", f.path, failed, f.breaks)
	}
	if len(sound) == 0 && *only == "" {
		t.Error("there is no mutant")
	}
}

// failure is what tests print if they ran and one of them failed, panicked, hung, or left something behind. They
// do not print it if the mutant does not build, or if the go command was stopped.
var failure = regexp.MustCompile(`(?m)^ *(--- FAIL: \S+|panic: .*|goleak: .*|holds left behind: .*)`)

// run runs the tests that are to notice the fault, with other files in place of some.
func (f fault) run(t *testing.T, replace map[string]string) (out string, code int) {
	t.Helper()
	var match []string
	for part := range strings.SplitSeq(f.test, "/") {
		match = append(match, "^"+part+"$")
	}
	return run(t, "go", "test", "-overlay", overlay(t, replace), "-count=1", "-vet=off", "-failfast", "-timeout=90s",
		"-run", strings.Join(match, "/"), "./"+f.folder)
}
