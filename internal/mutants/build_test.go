//go:build mutants

package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// only selects mutants, as in: go test -tags mutants ./internal/mutants -args -only v7_queue
var only = flag.String("only", "", "`regexp` of the mutants to build, by file and by what they break")

// labToo can be set to false to skip the slowest part: -args -lab=false
var labToo = flag.Bool("lab", true, "build the lab with each mutant, too")

// The tests of its stage notice each mutant of a lock, and the lab notices those marked Lab. Without a
// fault, all of them pass. A mutant is built with an overlay, so the source tree does not change.
func TestMutantsAreNoticed(t *testing.T) {
	pick, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	none := overlay(t, dir, nil)
	var table strings.Builder
	fmt.Fprintf(&table, "%-8s %-4s %s\n", "package", "lab", "fault")
	sound := map[string]bool{}
	for _, m := range all() {
		if !pick.MatchString(m.path() + " " + m.Breaks) {
			continue
		}
		if !sound[m.Stage] {
			sound[m.Stage] = true
			if noticed(t, none, m) || seen(t, dir, none, m) {
				t.Fatalf("%s fails without a fault", m.Stage)
			}
		}
		e := m.edit()
		with := overlay(t, dir, &e)
		byPackage, byLab := noticed(t, with, m), seen(t, dir, with, m)
		fmt.Fprintf(&table, "%-8s %-4s %s: %s\n", mark(byPackage), mark(byLab), m.path(), m.Breaks)
		if !byPackage {
			t.Errorf("the tests of %s do not notice that %s: %q instead of %q in %s", m.Stage, m.Breaks, m.New, m.Old,
				m.File)
		}
		if m.Lab && *labToo && !byLab {
			t.Errorf("the lab does not notice that %s: %q instead of %q in %s", m.Breaks, m.New, m.Old, m.path())
		}
	}
	t.Log("\n" + table.String())
	if len(sound) == 0 && *only == "" {
		t.Error("there is no mutant")
	}
}

func mark(noticed bool) string {
	if noticed {
		return "yes"
	}
	return "no"
}

// overlay writes the overlay file that makes go build use the mutant's text. It returns the
// path of the overlay file.
func overlay(t *testing.T, dir string, e *edit) string {
	t.Helper()
	replace := map[string]string{}
	if e != nil {
		path, err := filepath.Abs(filepath.Join(root, e.path))
		if err != nil {
			t.Fatal(err)
		}
		text := filepath.Join(dir, "mutated"+filepath.Ext(e.path))
		if err := os.WriteFile(text, []byte(mutated(t, *e)), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = text
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if e == nil {
		name = filepath.Join(dir, "none.json")
	}
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// The test that a sale mutant names fails with the fault, and passes without it.
func TestMutantsOfSalesAreNoticed(t *testing.T) {
	pick, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	none := overlay(t, dir, nil)
	sound := map[string]bool{}
	for _, m := range ofSales() {
		if !pick.MatchString(m.File + " " + m.Breaks) {
			continue
		}
		if id := m.tests() + m.Test; !sound[id] {
			sound[id] = true
			if out, failed := m.fails(t, none); failed {
				t.Fatalf("%s of %s fails without a fault:\n%s", m.Test, m.tests(), out)
			}
		}
		e := m.edit()
		out, failed := m.fails(t, overlay(t, dir, &e))
		name, _, _ := strings.Cut(m.Test, "/")
		if !failed || !strings.Contains(out, "--- FAIL: "+name) {
			t.Errorf("%s of %s does not notice that %s: %q instead of %q in %s\n%s", m.Test, m.tests(), m.Breaks, m.New,
				m.Old, m.File, out)
			continue
		}
		t.Logf("%s notices that %s", m.Test, m.Breaks)
	}
	if len(sound) == 0 && *only == "" {
		t.Error("there is no mutant")
	}
}

// fails runs the test that the mutant names, and reports whether it fails.
func (m saleMutant) fails(t *testing.T, overlay string) (out string, failed bool) {
	t.Helper()
	var match []string
	for part := range strings.SplitSeq(m.Test, "/") {
		match = append(match, "^"+part+"$")
	}
	return goTest(t, overlay, m.edit(), "-run", strings.Join(match, "/"), "./"+m.tests())
}

// noticed reports whether the tests of the mutant's stage fail.
func noticed(t *testing.T, overlay string, m mutant) bool {
	t.Helper()
	_, failed := goTest(t, overlay, m.edit(), "./internal/locks/"+m.Stage)
	return failed
}

// goTest runs tests with an overlay, and reports whether they fail. A mutant that does not build is
// not one that the tests notice.
func goTest(t *testing.T, overlay string, e edit, args ...string) (out string, failed bool) {
	t.Helper()
	flags := []string{"test", "-overlay", overlay, "-count=1", "-vet=off", "-failfast", "-timeout=90s"}
	out, code := run(t, "go", append(flags, args...)...)
	if strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]") {
		t.Errorf("%s does not build with %q:\n%s", e.path, e.new, out)
	}
	return out, code != 0
}

// seen reports whether any cell of the mutant's stage in the lab differs from its recorded outcome.
func seen(t *testing.T, dir, overlay string, m mutant) bool {
	t.Helper()
	if !*labToo {
		return false
	}
	lab := filepath.Join(dir, "lab")
	if out, code := run(t, "go", "build", "-overlay", overlay, "-o", lab, "./cmd/lab"); code != 0 {
		t.Errorf("the lab does not build with %q:\n%s", m.New, out)
		return false
	}
	out, code := run(t, lab, "-strategy", m.Stage)
	if code > 2 || code < 0 {
		t.Logf("the lab ended with %d: %s", code, out)
	}
	return code != 0
}

// run runs a command at the root of the module.
func run(t *testing.T, name string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %s: %v", name, err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}
