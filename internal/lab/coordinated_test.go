package lab

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/coordination/coordtest"
	"oversell/internal/locks"
)

// The locks on etcd and on ZooKeeper meet the anomalies of locks as is on record,
// and a session that expires is told before the next holder is let in. It is the
// history that says so: who was told when, and who came in when.
func TestCoordinatedLocksAreAsOnRecord(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		checkCoordinated(t, Config{Columns: []Column{coordinated(t, "etcd")}, Etcd: []string{coordtest.Etcd(t)}})
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		checkCoordinated(t, Config{Columns: []Column{coordinated(t, "zookeeper")}, ZooKeeper: []string{coordtest.ZooKeeper(t)}})
	})
}

func coordinated(t *testing.T, name string) Column {
	t.Helper()
	c, err := FindColumns(Coordinated(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}

// checkCoordinated leaves out what is asked of a shop and of a cache: there a lock is
// but one that works.
func checkCoordinated(t *testing.T, cfg Config) {
	t.Helper()
	cfg.Redis, cfg.attempts = Embedded, 2
	cfg.Scenarios = slices.Concat([]Scenario{pausedWriter()}, expiryScenarios(), clockScenarios(), releaseScenarios(),
		reentryScenarios(), tokenScenarios(), renewalScenarios(), waitScenarios())
	r := checkRecord(t, cfg)
	told := regexp.MustCompile(`^A was told of its loss \d.* before B had the lock$`)
	for _, c := range r.Cells {
		if c.Anomaly == "cut-off-holder" && c.Outcome == Holds && !told.MatchString(c.Note) {
			t.Errorf("%s: %q does not say when A was told", c.Strategy, c.Note)
		}
	}
}

// A lock that keeps a loss to itself is found out, by how long both had it.
func TestHolderWhoIsNotToldIsNoticed(t *testing.T) {
	t.Parallel()
	c := coordinated(t, "etcd")
	c.Lock = func(p *Process, key string) locks.Lock { return deafLock{newServiceLock(p, key).(recordedLock)} }
	r, err := Run(t.Context(), Config{Columns: []Column{c}, Scenarios: []Scenario{cutOff()}, Redis: Embedded, Etcd: []string{coordtest.Etcd(t)}, attempts: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cell := r.Cells[0]; cell.Outcome != Breaks && !isUndecided(cell) {
		t.Errorf("%s: %s", cell.Outcome, cell.Note)
	}
}

// deafLock never tells its holder anything.
type deafLock struct{ recordedLock }

func (deafLock) Context(parent context.Context) context.Context { return parent }

// In real time no lock is tried without the servers that it lives on.
func TestLocksNeedTheirServers(t *testing.T) {
	redis := backendtest.Redis(t, "embedded")
	for _, c := range append(Coordinated(), column(t, "redlock")) {
		_, err := Run(t.Context(), Config{Columns: []Column{c}, Scenarios: []Scenario{cutOff()}, Redis: redis}, nil)
		if !errors.Is(err, errNoServers) || !strings.Contains(err.Error(), c.Name) {
			t.Errorf("%s: %v; want %v", c.Name, err, errNoServers)
		}
	}
}
