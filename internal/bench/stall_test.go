package bench

import (
	"testing"
	"time"

	"oversell/internal/fleet"
)

// Undisturbed calls f, which returns what is wrong, or "". What is wrong does not count if
// this process stalled for longer than limit meanwhile: f is called again then, as often as a
// bench runs a row. A machine that stalls each time decides nothing.
func Undisturbed(t *testing.T, limit time.Duration, f func(try int) (wrong string)) {
	t.Helper()
	for try := range maxTries {
		watch := fleet.WatchStalls(limit, nil)
		wrong := f(try)
		stalled := watch.Stop().Round(time.Millisecond)
		if wrong == "" {
			return
		}
		if stalled == 0 {
			t.Fatal(wrong)
		}
		t.Logf("the machine stalled for %v: %s", stalled, wrong)
	}
	t.Skipf("the machine stalled for more than %v in each of %d tries", limit, maxTries)
}
