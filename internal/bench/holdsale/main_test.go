package holdsale_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench/holdsale"
)

// role in the environment makes this test binary one of the bench's processes.
const role = "OVERSELL_TEST_HOLD"

// The roles.
const (
	shop     = "shop"
	provider = "provider"
)

func TestMain(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	var err error
	switch os.Getenv(role) {
	case shop:
		err = holdsale.ServeShop(context.Background(), os.Stdin, os.Stdout, os.Stderr)
	case provider:
		err = holdsale.ServeProvider(context.Background(), os.Stdin, os.Stdout, os.Stderr)
	default:
		os.Exit(backendtest.Main(m))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// as returns the command that makes this test binary a process with a role.
func as(name string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), role+"="+name)
		return cmd, nil
	}
}
