package backendtest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
)

// TestEachIsEmpty runs the same twice: a test does not find what an earlier one
// wrote. Without Main, each subtest also has its own database server.
func TestEachIsEmpty(t *testing.T) {
	for range 2 {
		var ran []string
		backendtest.Each(t, func(t *testing.T, rdb redis.UniversalClient, db *gorm.DB) {
			name, _, _ := strings.Cut(t.Name()[strings.LastIndex(t.Name(), "/")+1:], "#")
			ran = append(ran, name)
			if n, err := rdb.DBSize(t.Context()).Result(); err != nil || n != 0 {
				t.Errorf("DBSIZE = %d, %v; want 0", n, err)
			}
			if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err != nil {
				t.Error(err)
			}
			if err := db.Exec("CREATE TABLE oversell_t (id INTEGER PRIMARY KEY)").Error; err != nil {
				t.Error(err)
			}
		})
		if got := strings.Join(ran, " "); got != strings.Join(backendtest.Kinds(), " ") {
			t.Errorf("ran %q, want %q", got, backendtest.Kinds())
		}
	}
}

// TestNeed runs the test below in a separate process, because it fails or
// skips.
func TestNeed(t *testing.T) {
	backendtest.System(t)
	for ci, want := range map[string]string{"false": "--- SKIP: TestNothingNeeded", "true": "--- FAIL: TestNothingNeeded"} {
		cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^TestNothingNeeded$")
		cmd.Env = append(os.Environ(), "CI="+ci, "OVERSELL_TEST_NEED=no-such-binary")
		out, _ := cmd.CombinedOutput() // with CI=true it is meant to fail
		if !strings.Contains(string(out), want) || !strings.Contains(string(out), "no-such-binary") {
			t.Errorf("CI=%s: want %q and the binary's name in:\n%s", ci, want, out)
		}
	}
}

// TestNothingNeeded needs the binary that TestNeed names, and nothing
// otherwise.
func TestNothingNeeded(t *testing.T) {
	if binary := os.Getenv("OVERSELL_TEST_NEED"); binary != "" {
		backendtest.Need(t, binary)
	}
}
