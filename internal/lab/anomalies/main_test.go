package anomalies

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"oversell/internal/lab"
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
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait"), // waits for ZooKeeper, which is stopped later
		// A client of a killed process tries to dial again, and notices only a second later that it
		// is closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// subject returns one of the subjects.
func subject(t *testing.T, name string) lab.Subject {
	t.Helper()
	c, err := lab.FindSubjects(Locks().All(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}

// cellOf runs one cell in virtual time.
func cellOf(t *testing.T, anomaly, strategy string) lab.Cell {
	t.Helper()
	scenarios, err := lab.FindScenarios(All(), []string{anomaly})
	if err != nil {
		t.Fatal(err)
	}
	return run(t, lab.Config{Subjects: []lab.Subject{subject(t, strategy)}, Scenarios: scenarios,
		Redis: lab.Embedded}).Cells[0]
}
