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

// role in the environment makes this test binary a shop.
const role = "OVERSELL_TEST_HOLD"

func TestMain(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	if os.Getenv(role) == "" {
		os.Exit(backendtest.Main(m))
	}
	if err := holdsale.Serve(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// shop is the command that makes this test binary a shop.
func shop() (*exec.Cmd, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=shop")
	return cmd, nil
}
