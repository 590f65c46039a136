package search

import (
	"runtime"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/lab"
)

// The result depends neither on the number of workers nor on the order in which a buyer's goroutines run.
// After a lost reply, a nested buyer releases its lock in two goroutines at the same time.
func TestResultIsTheSameEachTime(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults Faults
		runs   int
	}{{"nested_v5_reentrant", Faults{Losses: 1}, 3}, {"v2_ttl", Faults{Freezes: 1}, 4}} {
		t.Run(tt.name, func(t *testing.T) {
			var first Result
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
			for i := range backendtest.Times(2, tt.runs) {
				runtime.GOMAXPROCS(1 + i%4)
				r, err := Search(t.Context(), Config{Subject: subject(t, tt.name), Buyers: 2, Faults: tt.faults})
				if err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					first = r
				}
				if !r.Same(first) || r.Moves != first.Moves {
					t.Fatalf("run %d: %+v, at first %+v", i, r, first)
				}
			}
		})
	}
}

// The result is the same no matter which of the histories with the same id is kept.
func TestAnyOfTheBuyersThatAreAlikeMayBeKept(t *testing.T) {
	for _, name := range []string{"v3_uuid", "v6_watchdog", "v7_queue"}[:backendtest.Times(1, 3)] {
		var first Result
		for _, sign := range []int{1, -1} {
			cfg := Config{Subject: subject(t, name), Buyers: 2, Faults: Faults{Freezes: 1, Losses: 1}}
			x, _ := explore(t, cfg)
			x.root.program.histories.order = func(a, b []input) int { return sign * compareInputs(a, b) }
			if err := x.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			x.out.States, x.out.Moves = len(x.graph), int(x.made.Load())
			if sign > 0 {
				first = x.out
			} else if x.out.Moves != first.Moves || !x.out.Same(first) {
				t.Errorf("%s: %+v; with the last one kept, and not the first: %+v", name, first, x.out)
			}
		}
	}
}

// A move that lets time pass up to a later event is no longer than a schedule allows.
func TestNoMoveIsTooLong(t *testing.T) {
	x, e := explore(t, Config{Subject: subject(t, "none"), Buyers: 2})
	s := x.first()
	s.data = append(data{
		{name: "a", kind: "string", words: []string{"1"}, left: lab.MaxPass - time.Second/2},
		{name: "b", kind: "string", words: []string{"1"}, left: lab.MaxPass + time.Second/2},
	}, s.data...)
	steps, err := x.expand(e, reached{from: -1, s: s})
	if err != nil {
		t.Fatal(err)
	}
	var passed time.Duration
	for _, st := range steps {
		passed = max(passed, st.move.For)
	}
	if want := lab.MaxPass - time.Second/2; passed != want {
		t.Errorf("up to %v pass at once, want %v", passed, want)
	}
}
