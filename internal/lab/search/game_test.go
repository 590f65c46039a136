package search

import (
	"slices"
	"testing"

	"oversell/internal/lab"
)

// The shortest recorded schedule for a level is allowed in that level and wins it. Only the goal of v8
// is impossible. No recorded schedule wins three levels in a row.
func TestGameIsOnRecord(t *testing.T) {
	game := lab.Game()
	for _, l := range game {
		text, possible := recordOf(t, l.Strategy).Breaks[l.Goal]
		if possible == (l.Strategy == "v8_fenced") || possible && !wins(t, l, text) {
			t.Errorf("%s: %s by %q", l.Strategy, l.Goal, text)
		}
		won := 0
		for i := 0; possible && i < len(game) && won < 3; i++ {
			if won++; !wins(t, game[i], text) {
				won = 0
			}
		}
		if won >= 3 {
			t.Errorf("%s wins three levels in a row", text)
		}
	}
}

// No schedule wins the levels of both v5 and v6: the level of v5 allows no fault, and v6 does not oversell
// without a freeze.
func TestWatchdogIsOutlivedByAFreezeOnly(t *testing.T) {
	r, err := Search(t.Context(), Config{Subject: subject(t, "v6_watchdog"), Buyers: 2,
		Faults: Faults{Kills: 1, Losses: 1}})
	if moves, ok := r.Breaks[lab.GoalOversell]; ok || err != nil {
		t.Errorf("v6 sells too much by %s, %v", moves, err)
	}
	v5 := lab.Level{Strategy: "v5_reentrant", Goal: lab.GoalOversell, Faultless: true}
	const frozen = "A.A.fA.p3000.B.B.B.tA.A"
	if wins(t, v5, frozen) {
		t.Errorf("v5 is won by %s", frozen)
	}
	if v5.Faultless = false; !wins(t, v5, frozen) {
		t.Errorf("%s does not break v5, so the level need not be faultless", frozen)
	}
}

// wins reports whether the schedule in text wins a level.
func wins(t *testing.T, l lab.Level, text string) bool {
	t.Helper()
	moves, err := lab.ParseMoves(text)
	if err != nil {
		t.Fatal(err)
	}
	_, possible := recordOf(t, l.Strategy).Breaks[l.Goal]
	return possible && allows(l, moves) && Replay(l.Strategy, 2, l.Goal, text) == nil
}

func recordOf(t *testing.T, strategy string) Result {
	t.Helper()
	r := Recorded()
	found, ok := r.Find(strategy, 2)
	if !ok || found.Cut || !slices.Contains(r.Goals, lab.GoalSelfWait) {
		t.Fatalf("%s is not on record: %+v", strategy, found)
	}
	return found
}

// allows reports whether a level allows these moves. A faultless level allows no freeze, no kill and no
// lost reply.
func allows(l lab.Level, moves []lab.Move) bool {
	return !l.Faultless || !slices.ContainsFunc(moves, func(m lab.Move) bool {
		return m.Action == lab.Freeze || m.Action == lab.Kill || m.Action == lab.Lose
	})
}
