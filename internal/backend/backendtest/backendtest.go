// Package backendtest starts the backends of the program for tests: private servers for each test,
// which are stopped and removed when the test is over.
//
// Without the build tag "system", only the embedded backends are tested, and each test that needs a
// real server, a browser or a compiler is skipped. With the tag, a test is skipped only if it needs
// a binary that is not installed; the message says how to install it. With CI=true in the
// environment, such a test fails instead, so that no gap in the tests goes unnoticed.
package backendtest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
)

// Kinds returns the values of -redis and -db that the tests use: "embedded" and, with the build tag
// system, "local".
func Kinds() []string {
	if !tagged {
		return []string{"embedded"}
	}
	return []string{"embedded", "local"}
}

// Times returns the number of rounds of a test. With the build tag system it returns all, otherwise
// fast.
func Times(fast, all int) int {
	if tagged {
		return all
	}
	return fast
}

// System skips the test unless it is built with the tag system. Every test that starts a server, a
// browser, a compiler or a whole program must call System or be in a file with the tag.
func System(t testing.TB) {
	t.Helper()
	if !tagged {
		t.Skip("starts servers or programs: run it with -tags system")
	}
}

// Slack is added to the time limits of tests, because a machine may be busy. Such a limit only
// distinguishes a wait that ends from a wait that does not. Only benchmarks measure speed.
const Slack = 6 * time.Second

// startTimeout limits the start of one server.
const startTimeout = time.Minute

// Each runs f as the subtest "embedded", with miniredis and SQLite, and, with the tag system, as
// the subtest "local", with a real redis-server and a real MariaDB or MySQL.
func Each(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient, db *gorm.DB)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			f(t, DialRedis(t, Redis(t, kind)), DialDatabase(t, Database(t, kind)))
		})
	}
}

// EachRedis runs f as the subtests of Kinds, each with its own empty Redis.
func EachRedis(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			f(t, DialRedis(t, Redis(t, kind)))
		})
	}
}

// EachDatabase runs f as the subtests of Kinds, each with its own empty database.
func EachDatabase(t *testing.T, f func(t *testing.T, db *gorm.DB)) {
	t.Helper()
	for _, kind := range Kinds() {
		t.Run(kind, func(t *testing.T) {
			f(t, DialDatabase(t, Database(t, kind)))
		})
	}
}

// Need calls System, and skips the test if one of the binaries is not in the PATH. With CI=true
// the test fails instead.
func Need(t testing.TB, binaries ...string) {
	t.Helper()
	System(t)
	for _, binary := range binaries {
		if _, err := exec.LookPath(binary); err != nil {
			skip(t, binary+" is not in the PATH: install the package that has it")
		}
	}
}

// Must fails the test if err is not nil. If err means that a binary is missing, Must skips the
// test instead, or fails it with CI=true.
func Must(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, backend.ErrMissing) {
		skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func skip(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// Eventually waits until is returns true. If that takes longer than Slack, the test fails: a lease
// lasts longer in most tests, so it is not its end that makes is true. what describes the wait in
// the message.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	EventuallyWithin(t, Slack, what, is)
}

// EventuallyWithin is like Eventually, with another limit.
func EventuallyWithin(t testing.TB, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: ", what)
		}
	}
}

// starting returns the context for the start of a server.
func starting(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	t.Cleanup(cancel)
	return ctx
}

// EmptyTempDir gives the test a folder of its own for temporary files. It must be empty when the
// test ends.
func EmptyTempDir(t testing.TB) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "t") // short, because a socket is created in it
	Must(t, err)
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}
