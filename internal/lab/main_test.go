package lab

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"oversell/internal/locks/lease/leasetest"
)

func TestMain(m *testing.M) {
	logging.Disable()       // go-redis returns the errors that it would print
	debug.SetGCPercent(400) // the lab allocates a lot and keeps little of it
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := leasetest.StopZooKeeper(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}), goleak.IgnoreTopFunction("oversell/internal/fleet.(*Process).run"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait")) // waits for ZooKeeper, which is stopped later
}

// subject returns one of the subjects.
func subject(t *testing.T, name string) Subject {
	t.Helper()
	c, err := FindSubjects(append(Subjects(), Yours()), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}
