package bench

import (
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/fleet"
)

// A process that is stopped with a holder inside stays stopped until another holder has entered. On
// a slow machine, the waiters may not have noticed yet that the lease has expired.
func TestTheStoppedWaitForTheirSuccessor(t *testing.T) {
	if !fleet.LiveWords {
		t.Skip("gauges cannot be read here")
	}
	counters, f := gauged(t)
	synctest.Test(t, func(t *testing.T) {
		stopped := f.Members()[0]
		waits := func(what string, want time.Duration) {
			before, start := f.entered(stopped), time.Now()
			f.succeeded(t.Context(), stopped, before, time.Second)
			if took := time.Since(start); took != want {
				t.Errorf("%s: waited for %v, want %v", what, took, want)
			}
		}
		time.AfterFunc(199500*time.Microsecond, func() { counters[1].count("item", +1) })
		waits("a successor after 200 ms", 200*time.Millisecond)
		time.AfterFunc(199500*time.Microsecond, func() { counters[0].count("item", +1) })
		waits("one in the stopped process", time.Second)

		before, start := f.entered(stopped), time.Now()
		counters[1].count("item", -1)
		counters[1].count("item", +1)
		if f.succeeded(t.Context(), stopped, before, time.Second); time.Since(start) != 0 {
			t.Errorf("a successor before: waited for %v", time.Since(start))
		}
		f.gauged = false
		waits("gauges that are not read", 0)
	})
}

// A fault is injected only when all shops are selling. Otherwise the only selling shop could be
// killed before two holders ever compete.
func TestFaultsWaitForAllShops(t *testing.T) {
	if !fleet.LiveWords {
		t.Skip("gauges cannot be read here")
	}
	counters, f := gauged(t)
	counters[0].add("item", gaugeWork)
	counters[1].add("another item", gaugeWork)
	if f.takePart() {
		t.Error("one shop of two sells the item, and both are said to take part")
	}
	counters[1].add("item", gaugeWork)
	if !f.takePart() {
		t.Error("both shops sell the item, and are not said to take part")
	}
}
