package anomalies

import (
	"fmt"
	"os"
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"oversell/internal/backend/coordination/coordtest"
	"oversell/internal/lab"
)

func TestMain(m *testing.M) {
	logging.Disable()       // what go-redis would print it returns as well
	debug.SetGCPercent(400) // the lab makes much garbage and keeps little
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := coordtest.StopZooKeeper(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}), goleak.IgnoreTopFunction("oversell/internal/proc.(*Process).run"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait")) // of ZooKeeper, which is stopped after
}

// tooBusy begins the note of a cell that decides nothing.
const tooBusy = "this machine was too busy"

// subject returns one of the subjects.
func subject(t *testing.T, name string) lab.Subject {
	t.Helper()
	c, err := lab.FindSubjects(append(lab.Subjects(), lab.Coordinated()...), []string{name})
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
	r, err := lab.Run(t.Context(), lab.Config{Subjects: []lab.Subject{subject(t, strategy)}, Scenarios: scenarios, Redis: lab.Embedded}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Cells[0]
}
