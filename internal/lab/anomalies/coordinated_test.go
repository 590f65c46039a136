package anomalies

import (
	"regexp"
	"slices"
	"testing"

	"oversell/internal/lab"
	"oversell/internal/locks/lease/leasetest"
)

// The locks on etcd and ZooKeeper have the recorded outcomes. The holder of an expired session learns of
// its loss before the next holder gets the lock, as the times in the cell's note show.
func TestCoordinatedLocksAreAsOnRecord(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		checkCoordinated(t, lab.Config{Subjects: []lab.Subject{subject(t, "etcd")},
			Services: Services([]string{leasetest.Etcd(t)}, nil)})
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		checkCoordinated(t, lab.Config{Subjects: []lab.Subject{subject(t, "zookeeper")},
			Services: Services(nil, []string{leasetest.ZooKeeper(t)})})
	})
}

// checkCoordinated compares the outcomes with the record. It leaves out the anomalies of a shop and of a
// cache, because any working lock prevents them.
func checkCoordinated(t *testing.T, cfg lab.Config) {
	t.Helper()
	cfg.Redis = lab.Embedded
	all := All()
	named := func(name string) int {
		return slices.IndexFunc(all, func(s lab.Scenario) bool { return s.Name == name })
	}
	cfg.Scenarios = append([]lab.Scenario{pausedWriter}, all[named(orphan.Name):named(cacheStampede.Name)]...)
	r := run(t, cfg)
	compare(t, cfg, r)
	told := regexp.MustCompile(`^A was told of its loss \d.* before B had the lock$`)
	for _, c := range r.Cells {
		if c.Anomaly == "cut-off-holder" && c.Outcome == lab.Holds && !told.MatchString(c.Note) {
			t.Errorf("%s: %q does not say when A was told", c.Strategy, c.Note)
		}
	}
}
