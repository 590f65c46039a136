package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
)

// If the environment variable asProgram is set, this test binary runs as the program.
const asProgram = "OVERSELL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	logging.Disable() // go-redis also returns the errors that it would log
	if len(os.Args) == 2 && (os.Args[1] == asInstance || os.Args[1] == asContender) {
		os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	if os.Getenv(asProgram) != "" {
		main()
	}
	for _, name := range []string{"REDIS", "DB", "TOKEN", "REQUESTS", "STRATEGIES", "CONDITIONS"} {
		_ = os.Unsetenv("OVERSELL_" + name) // the tests need the flags' defaults
	}
	os.Exit(backendtest.Main(m))
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outcome is the result of a run of the program.
type outcome struct {
	code           int
	stdout, stderr string
}

// try runs the program, with processes of this test binary as instances.
func try(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := start(t.Context(), args, &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// small returns the flags for a short run. The ttl is long enough for a watchdog to renew the lease
// on a busy machine. Later arguments override earlier ones.
func small(args ...string) []string {
	return append(strings.Fields("-requests 300 -stock 100 -ttl 800ms -work 1ms"), args...)
}
