//go:build system

package bench_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/figures"
)

// Each fault of a row is reported with its kind, when it began, and how long it lasted.
func TestFaultsAreSeenAsTheyHappened(t *testing.T) {
	t.Parallel()
	kinds := map[catalog.Condition]bench.FaultKind{
		catalog.Slow: bench.Slow, catalog.Late: bench.Late, catalog.Crash: bench.Killed,
		catalog.Pause: bench.Stopped, catalog.Partition: bench.CutOff,
	}
	cfg, o := config(t, "embedded"), new(onlooker)
	cfg.Strategies = []string{"v8_fenced"}
	cfg.Conditions = append(slices.Sorted(maps.Keys(kinds)), catalog.Calm)
	if _, err := bench.Run(t.Context(), cfg, o); err != nil {
		t.Fatal(err)
	}
	for _, row := range o.rows {
		kind, faults := kinds[row.Condition], row.last.Faults
		if (len(faults) == 0) != (kind == "") {
			t.Errorf("%s: %d faults were seen", row.Condition, len(faults))
		}
		lease, err := time.ParseDuration(row.TTL)
		must(t, err)
		ttl, seen := figures.Milliseconds(lease), figures.Milliseconds(row.last.Elapsed)
		for _, f := range faults {
			lasted := f.Until - f.At
			ends := lasted > ttl || lasted > 0 && seen < f.Until // the row may have ended before the fault
			if f.Kind == bench.Killed {
				ends = f.Until == 0
			}
			if f.Kind != kind || f.At <= 0 || f.At > seen || !ends {
				t.Errorf("%s: with a ttl of %v ms, seen at %v ms: %+v, want %s", row.Condition, ttl, seen, f, kind)
			}
		}
	}
}

// If the dead holder's lock never expires, no buyer is served again; if it expires, buyers are
// served. The bench notices this while the buyers still wait.
func TestNobodyIsServedBehindAnOrphanedLock(t *testing.T) {
	t.Parallel()
	cfg := config(t, "embedded")
	cfg.Strategies, cfg.Conditions = []string{"v1_setnx"}, []catalog.Condition{catalog.Crash}
	row, o := watched(t, cfg)
	if !row.Expected || row.Reasons["busy"] == 0 || row.Undersold == 0 {
		t.Errorf("v1_setnx: %d undersold, and buyers were refused for %v; %s", row.Undersold, row.Reasons, row.Differs)
	}
	u := o.last.Unserved
	if u == nil || len(o.last.Faults) != 1 {
		t.Fatalf("v1_setnx: %+v, with the faults %+v", u, o.last.Faults)
	}
	if least := 13 * cfg.TTL / 10; u.At-u.Since < least || u.Waiting == 0 || u.Left == 0 || u.At > o.last.Elapsed {
		t.Errorf("v1_setnx: %+v, at %v", u, o.last.Elapsed)
	}
	early := false
	for _, l := range o.seen {
		early = early || l.Unserved != nil && l.Waiting > 0
	}
	if !early {
		t.Error("it was not seen before the buyers gave up")
	}
	cfg.Strategies = []string{"v2_ttl"}
	if row, o := watched(t, cfg); o.last.Unserved != nil || !row.Expected {
		t.Errorf("v2_ttl: %+v; %s", o.last.Unserved, row.Differs)
	}
}
