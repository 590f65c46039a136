package lab

import (
	"os"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/lease/leasetest"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, leasetest.StopZooKeeper)) }

// subject returns the subject with this name.
func subject(t *testing.T, name string) Subject {
	t.Helper()
	c, err := FindSubjects(append(Subjects(), Yours()), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}
