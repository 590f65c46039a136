package search

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"oversell/internal/backend/backendtest"
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

// The shortest schedule of a level is allowed there, and wins it.
func TestBestScheduleWinsItsLevel(t *testing.T) {
	for _, l := range lab.Game() {
		if text, possible := recordOf(t, l.Strategy).Breaks[l.Goal]; possible && !wins(t, l, text) {
			t.Errorf("%s is not won by %s", l.Strategy, text)
		}
	}
}

// No schedule wins three levels in a row: none on record, and none that is made from one of
// those by one more move, or by a process that stops and goes on.
func TestSameMovesDoNotWinThreeLevels(t *testing.T) {
	game := lab.Game()
	for _, text := range schedules(t) {
		known := make(map[int]bool)
		won := func(i int) bool {
			if _, ok := known[i]; !ok {
				known[i] = wins(t, game[i], text)
			}
			return known[i]
		}
		for i := range len(game) - 2 {
			pivot := i + 2 - i%3 // of any three in a row one is the third, sixth or ninth level: the others are seldom played
			if won(pivot) && won(i) && won(i+1) && won(i+2) {
				t.Errorf("%s wins %s and the two levels after it", text, game[i].Strategy)
			}
		}
	}
}

// A level that is won without a fault and the next one have no schedule in common: without
// a freeze v6 sells no unit twice.
func TestWatchdogIsOutlivedByAFreezeOnly(t *testing.T) {
	r, err := Search(t.Context(), Config{Subject: subject(t, "v6_watchdog"), Buyers: 2, Faults: Faults{Kills: 1, Losses: 1}})
	if moves, ok := r.Breaks[Oversell]; ok || err != nil {
		t.Errorf("v6 sells too much by %s, %v", moves, err)
	}
	v5 := lab.Level{Strategy: "v5_reentrant", Goal: Oversell, Faultless: true}
	const frozen = "A.A.fA.p3000.B.B.B.tA.A"
	if wins(t, v5, frozen) {
		t.Errorf("v5 is won by %s", frozen)
	}
	if v5.Faultless = false; !wins(t, v5, frozen) {
		t.Errorf("%s does not break v5, so the level need not be faultless", frozen)
	}
}

// wins reports whether a schedule wins a level.
func wins(t *testing.T, l lab.Level, text string) bool {
	t.Helper()
	moves, err := lab.ParseMoves(text)
	if err != nil {
		t.Fatal(err)
	}
	_, possible := recordOf(t, l.Strategy).Breaks[l.Goal]
	return possible && l.Allows(moves) && Replay(l.Strategy, 2, l.Goal, text) == nil
}

// schedules are the breaks on record of two buyers, and what differs from them by a little.
func schedules(t *testing.T) []string {
	r, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]bool)
	for _, o := range r.Results {
		for _, text := range o.Breaks {
			if o.Buyers != 2 {
				continue
			}
			all[text] = true
			if backendtest.Times(0, 1) == 0 {
				continue
			}
			moves := strings.Split(text, ".")
			for i := range len(moves) + 1 {
				for _, more := range []string{"p50", "p3000", "kA", "kB", "lA", "lB"} {
					all[strings.Join(slices.Insert(slices.Clone(moves), i, more), ".")] = true
				}
				for j := i + 1; j <= len(moves); j++ {
					for _, buyer := range []string{"A", "B"} {
						stopped := slices.Insert(slices.Clone(moves), j, "t"+buyer)
						all[strings.Join(slices.Insert(stopped, i, "f"+buyer), ".")] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
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
