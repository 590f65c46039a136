package search

import (
	"slices"
	"testing"
)

// Each break is replayed by the scheduler, and by no schedule that is shorter.
func TestBreaksAreReplayed(t *testing.T) {
	for name, want := range map[string][]Goal{
		"none": {Oversell}, "local": {Oversell, Overlap}, "watch": nil,
		"v1_setnx": {Stuck}, "v2_ttl": {Oversell, Overlap, ForeignDelete},
		"v3_uuid": {Oversell, Overlap, ForeignDelete}, "v4_lua": {Oversell, Overlap},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Search(t.Context(), Config{Subject: subject(t, name), Buyers: 2, Faults: OneOfEach})
			if err != nil {
				t.Fatal(err)
			}
			for _, goal := range Goals() {
				moves, found := r.Breaks[goal]
				if found != slices.Contains(want, goal) {
					t.Errorf("%s: found %v by %q", goal, found, moves)
				}
				if !found {
					continue
				}
				if err := Replay(name, 2, goal, moves); err != nil {
					t.Errorf("%s: %v", goal, err)
				}
			}
		})
	}
}

// The result does not depend on how many goroutines work at it.
func TestResultIsTheSameEachTime(t *testing.T) {
	var first Result
	for i := range 20 {
		r, err := Search(t.Context(), Config{Subject: subject(t, "v2_ttl"), Buyers: 2, Faults: Faults{Freezes: 1}, Workers: 1 + i%4})
		if err != nil {
			t.Fatal(err)
		}
		r.Wall = 0
		if i == 0 {
			first = r
		}
		if r.States != first.States || r.Moves != first.Moves || len(r.Breaks) != len(first.Breaks) || r.Breaks[Oversell] != first.Breaks[Oversell] {
			t.Fatalf("run %d: %+v, at first %+v", i, r, first)
		}
	}
}
