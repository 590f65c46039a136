package anomalies

import (
	"os"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
	"oversell/internal/locks/lease/leasetest"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, leasetest.StopZooKeeper)) }

// subject returns the subject with this name.
func subject(t *testing.T, name string) lab.Subject {
	t.Helper()
	c, err := lab.FindSubjects(Locks().All(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}

// called returns the anomalies with the given names.
func called(t *testing.T, names ...string) []lab.Scenario {
	t.Helper()
	scenarios, err := lab.FindScenarios(All(), names)
	if err != nil {
		t.Fatal(err)
	}
	return scenarios
}
