package promises

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Test checks every promise of a lock, each in a subtest. Breaks names the promises that the
// lock is known to break: such a subtest fails if the lock keeps the promise after all, so that
// the list stays true. A process that is stopped for longer than the ttl loses every lock that
// expires: such a lock breaks "pause", and "fenced" is the answer to it.
func Test(t *testing.T, subject Subject, breaks ...string) {
	t.Helper()
	all := All()
	for _, name := range breaks {
		if !slices.ContainsFunc(all, func(p Promise) bool { return p.Name == name }) {
			t.Fatalf("there is no promise %q", name)
		}
	}
	for _, p := range all {
		t.Run(p.Name, func(t *testing.T) {
			if failure := p.Verdict(t, subject, slices.Contains(breaks, p.Name)); failure != "" {
				t.Error(failure)
			}
		})
	}
}

// testTTL is long compared with what a scenario waits for besides. It passes instantly.
const testTTL = 3 * time.Second

// Verdict checks the promise in a synctest bubble of its own. It returns why the subtest of Test
// fails for a lock that is listed as breaking the promise, or not, and "" if it passes.
func (p Promise) Verdict(t *testing.T, subject Subject, breaks bool) (failure string) {
	synctest.Test(t, func(t *testing.T) {
		broken, err := p.Check(t.Context(), subject, testTTL)
		switch {
		case err != nil:
			failure = "the scenario could not be run: " + err.Error()
		case broken == "" && breaks:
			failure = p.Says + ": kept, although the list says that it is broken"
		case broken != "" && !breaks:
			failure = p.Says + ": " + broken
		}
	})
	return failure
}
