package lab_test

import (
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
	"oversell/internal/lab/anomalies"
)

// The key changes in a trace add up to the keys in Redis, so the trace misses no key that a script
// creates.
func TestTraceAddsUpToWhatRedisHas(t *testing.T) {
	compared := make(map[string]int) // by lock
	err := lab.InVirtualTime(func() {
		for i, c := range lab.Subjects() {
			for j, sc := range anomalies.All() {
				if (i+j)%backendtest.Times(8, 3) != 0 {
					continue // try each lock on some anomalies, and each anomaly with some locks
				}
				if sc.NotApplicable == nil || sc.NotApplicable(c) == "" {
					compared[c.Name] += lab.AddsUp(t, c, sc)
				}
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, c := range lab.Subjects() {
		if compared[c.Name] == 0 && c.Lock != nil && !c.InProcess {
			t.Errorf("no key of %s was compared", c.Name)
		}
		sum += compared[c.Name]
	}
	if sum < backendtest.Times(50, 200) {
		t.Errorf("only %d keys were compared", sum)
	}
}

func TestNothingIsLeftInRedis(t *testing.T) {
	locks, err := lab.FindSubjects(lab.Subjects(), []string{"v7_queue", "rueidislock"})
	if err != nil {
		t.Fatal(err)
	}
	lab.LeavesNothing(t, locks, anomalies.All())
	holds, err := lab.FindScenarios(anomalies.Holds().Scenarios, []string{"clock-differs", "sweep-only-with-traffic"})
	if err != nil {
		t.Fatal(err)
	}
	lab.LeavesNothing(t, anomalies.Holds().Subjects, holds)
}
