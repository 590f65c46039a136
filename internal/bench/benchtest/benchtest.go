// Package benchtest lets test binaries of packages that run benches serve as the instances.
package benchtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
)

// asInstance in the environment makes a test binary an instance of the bench.
const asInstance = "OVERSELL_TEST_INSTANCE"

// Main is the whole of a TestMain: it runs the tests, fails if they leak goroutines, and
// exits. In a process of Command it is an instance instead.
func Main(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	if os.Getenv(asInstance) != "" {
		if err := bench.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr, nil); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(backendtest.Main(m))
}

// Command returns the command that runs this test binary as an instance.
func Command() *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asInstance+"=1")
	return cmd
}
