package search

import (
	"slices"
	"testing"

	"oversell/internal/lab"
)

// The game is what the record says: each level has a shortest schedule that reaches its goal,
// but v8, whose goal is impossible.
func TestGameIsOnRecord(t *testing.T) {
	for _, l := range lab.Game() {
		moves, possible := recordOf(t, l.Strategy).Breaks[l.Goal]
		if possible == (l.Strategy == "v8_fenced") {
			t.Errorf("%s: %s by %q", l.Strategy, l.Goal, moves)
		}
	}
}

// The shortest schedule of a level does not win both of the next two as well.
func TestSameMovesDoNotWinThreeLevels(t *testing.T) {
	game := lab.Game()
	for i, l := range game[:len(game)-2] {
		text, ok := recordOf(t, l.Strategy).Breaks[l.Goal]
		if !ok {
			continue
		}
		won := 1
		for _, next := range game[i+1 : i+3] {
			if Replay(next.Strategy, 2, next.Goal, text) == nil {
				won++
			}
		}
		if won == 3 {
			t.Errorf("%s wins %s and the two after it", text, l.Strategy)
		}
	}
}

func recordOf(t *testing.T, strategy string) Result {
	t.Helper()
	r, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	found, ok := r.Find(strategy, 2)
	if !ok || found.Cut || !slices.Contains(r.Goals, SelfWait) {
		t.Fatalf("%s is not on record: %+v", strategy, found)
	}
	return found
}
