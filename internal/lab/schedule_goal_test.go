package lab

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// playedFor plays moves for a goal.
func playedFor(t *testing.T, goal Goal, strategy, moves string) State {
	t.Helper()
	parsed, err := ParseMoves(moves)
	if err != nil {
		t.Fatal(err)
	}
	s, err := PlayFor(Schedule{Strategy: strategy, Buyers: 2, Moves: parsed}, goal)
	if err != nil {
		t.Fatalf("%s/%s: %v", strategy, moves, err)
	}
	return s
}

// A goal is reached by what happens, and by no move before.
func TestGoalIsReachedByItsLastMove(t *testing.T) {
	for _, tt := range []struct {
		goal            Goal
		strategy, moves string
	}{
		{GoalOversell, "none", "A.B.A.B"},
		{GoalStuck, "v1_setnx", "A.kA"},
		{GoalForeignDelete, "v2_ttl", "A.A.A.p3000.B.A"},
		{GoalForeignDelete, "v3_uuid", "A.A.A.A.p3000.B.A"},
		{GoalSelfWait, "nested_v4_lua", "A.A"},
		{GoalOversell, "v5_reentrant", "A.A.p3000.B.B.A.B"},
		{GoalOversell, "v7_queue", "A.A.fA.p3000.B.B.B.tA.A"},
		{GoalOverlap, "v9_cohort", "A.fA.p3000.B"},
	} {
		if s := playedFor(t, tt.goal, tt.strategy, tt.moves); !slices.Contains(s.Reached, tt.goal) {
			t.Errorf("%s/%s has reached %v; want %s", tt.strategy, tt.moves, s.Reached, tt.goal)
		}
		before := tt.moves[:strings.LastIndex(tt.moves, ".")]
		if s := playedFor(t, tt.goal, tt.strategy, before); slices.Contains(s.Reached, tt.goal) {
			t.Errorf("%s/%s has reached %v already", tt.strategy, before, s.Reached)
		}
	}
}

// A buyer who is frozen, or whose lock will expire, is served in the end.
func TestWaitingIsNotStuck(t *testing.T) {
	for strategy, moves := range map[string]string{"v1_setnx": "A.fA.B", "v2_ttl": "A.kA.B", "nested_v4_lua": "A.A"} {
		if s := playedFor(t, GoalStuck, strategy, moves); slices.Contains(s.Reached, GoalStuck) || len(s.Unserved) > 0 {
			t.Errorf("%s/%s: %v, %v are never served", strategy, moves, s.Reached, s.Unserved)
		}
	}
	if s := playedFor(t, GoalStuck, "v1_setnx", "A.kA"); !slices.Equal(s.Unserved, []string{"B"}) {
		t.Errorf("%v are never served; want B", s.Unserved)
	} else if last := s.Trace[len(s.Trace)-1]; !slices.Equal(found(s, Unserved), []string{last.Text}) || last.Kind != Break {
		t.Errorf("found %q, and the last event is %+v", found(s, Unserved), last)
	}
	if _, err := PlayFor(Schedule{Strategy: "none", Buyers: 2}, "victory"); !errors.Is(err, ErrSchedule) {
		t.Errorf("an unknown goal: %v", err)
	}
}

// A lock that is not reentrant refuses its own holder, until its lease ends. One that is
// lets it in, and is free only when it was given back as often.
func TestHelperThatLocksAgain(t *testing.T) {
	v4 := playedFor(t, "", "nested_v4_lua", "A.A")
	if got := found(v4, SelfWait); len(got) != 1 || got[0] != "A waits for the lock that it has itself" || v4.Players[0].Status != Asleep || v4.Lock.Redis != "A" {
		t.Errorf("v4: found %q, %+v", got, v4.Players[0])
	}
	if s := playedFor(t, "", "nested_v4_lua", "A.A.p1000.A"); len(found(s, SelfWait)) != 1 {
		t.Errorf("v4: found %q; want one finding for one wait", found(s, SelfWait))
	}
	if s := playedFor(t, "", "nested_v4_lua", "A.A.p3000.A"); s.Players[0].Status != Ready || s.Lock.Redis != "A" {
		t.Errorf("v4, when its lease has ended: %+v, the lock is %s", s.Players[0], s.Lock.Redis)
	}
	v5 := playedFor(t, "", "nested_v5_reentrant", "A.A.A.A.A")
	if len(v5.Findings) > 0 || v5.Sale.Sold != 1 || !strings.HasPrefix(v5.Lock.Redis, "A") {
		t.Errorf("v5: %+v, %+v, the lock is %s", v5.Findings, v5.Sale, v5.Lock.Redis)
	}
	if v5 = playedFor(t, "", "nested_v5_reentrant", "A.A.A.A.A.A"); v5.Lock.Redis != "free" || v5.Players[0].Result != Bought || !v5.Players[0].Sold {
		t.Errorf("v5, in the end: %+v, the lock is %s", v5.Players[0], v5.Lock.Redis)
	}
}

// Every level can be scheduled, and shows one stage.
func TestGameHasLevels(t *testing.T) {
	for _, level := range Game() {
		if !slices.Contains(Levels(), level.Strategy) || !slices.Contains(Goals(), level.Goal) {
			t.Errorf("%+v cannot be played", level)
		}
	}
}
