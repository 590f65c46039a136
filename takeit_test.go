//go:build system

package oversell_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oversell/internal/locks/locktest"
)

const takeIt = "docs/take-it.md"

// The commands in docs/take-it.md, run unchanged, copy a lock and two sales into a new module, pass
// the contract tests there, and show that a broken lock fails them.
func TestTakeItHomeWorks(t *testing.T) {
	var script strings.Builder
	for _, block := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```").FindAllStringSubmatch(read(t, takeIt), -1) {
		script.WriteString(block[1])
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-eu")
	cmd.Stdin = strings.NewReader(script.String())
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want []string
	for _, name := range locktest.Promises() {
		want = append(want, "TestLock/"+strings.ReplaceAll(name, " ", "_"))
	}
	if passed := reported("--- PASS: (TestLock/[^ ]+) ", out); !slices.Equal(passed, want) {
		t.Errorf("these promises passed: %q, want %q:\n%s", passed, want, out)
	}
	const broken = "TestLock/work_longer_than_the_ttl_keeps_the_lock"
	if failed := reported("--- FAIL: (TestLock/[^ ]+) ", out); !slices.Contains(failed, broken) {
		t.Errorf("these promises failed with the broken lock: %q, want %s:\n%s", failed, broken, out)
	}
	lock, sale := "example.com/take", "example.com/take/sale"
	if packages := reported("^ok  \t([^\t]+)\t", out); !slices.Equal(packages, []string{lock, lock, sale, sale}) {
		t.Errorf("these packages passed: %q, want the lock, the repaired lock, the sale and the sale by holds:\n%s",
			packages, out)
	}
	if text := read(t, takeIt); !strings.Contains(text, fmt.Sprintf("after %d subtests that passed", len(want))) {
		t.Errorf("%s does not say that there are %d subtests", takeIt, len(want))
	}
}

// reported returns the text that the pattern's group matches in each matching line.
func reported(pattern string, out []byte) (found []string) {
	for _, line := range regexp.MustCompile("(?m)"+pattern).FindAllSubmatch(out, -1) {
		found = append(found, string(line[1]))
	}
	return found
}

// For each need, the folders that docs/take-it.md names import no other package of the project.
func TestTakeItHomeNamesAllFolders(t *testing.T) {
	var all []string
	rows := regexp.MustCompile(`(?m)^\| .* \| (.*internal/.*) \| .* \|$`)
	for _, row := range rows.FindAllStringSubmatch(read(t, takeIt), -1) {
		named := regexp.MustCompile("`(internal/[a-z0-9_/]+)`").FindAllStringSubmatch(row[1], -1)
		var folders []string
		for _, n := range named {
			folders = append(folders, n[1])
		}
		if strings.Contains(row[1], "the folders of the sale") {
			folders = append(folders, all...)
		}
		all = folders
		args := []string{"list", "-deps"}
		for _, f := range folders {
			args = append(args, "./"+f)
		}
		out, err := exec.CommandContext(t.Context(), "go", args...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			name, ours := strings.CutPrefix(strings.TrimSpace(line), "oversell/")
			if ours && !slices.Contains(folders, name) {
				t.Errorf("the row with %v lacks %s", folders, name)
			}
		}
	}
	if len(all) == 0 {
		t.Errorf("%s names no folders", takeIt)
	}
}
