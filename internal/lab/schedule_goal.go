package lab

import (
	"fmt"
	"slices"
	"time"

	"oversell/internal/lab/virtualtime"
)

// Goal is something that a schedule can lead to and that the strategy should prevent. The
// scheduler wins a level by reaching its goal, and package search looks for the shortest
// schedule to each.
type Goal string

// The goals.
const (
	GoalOversell      Goal = "oversell"       // more is sold than there is
	GoalOverlap       Goal = "overlap"        // two are in the section at once
	GoalForeignDelete Goal = "foreign-delete" // somebody deletes a lock of another
	GoalSelfWait      Goal = "self-wait"      // a buyer in its section waits for the lock that it has itself
	GoalStuck         Goal = "stuck"          // a buyer waits that no schedule serves any more
)

// Goals returns all goals.
func Goals() []Goal {
	return []Goal{GoalOversell, GoalOverlap, GoalForeignDelete, GoalSelfWait, GoalStuck}
}

// Level is a level of the game on the page: a strategy, and the goal to reach with it.
type Level struct {
	Strategy string `json:"strategy"`
	Goal     Goal   `json:"goal"`
}

// Game returns the levels in their order. Each shows what is wrong with one stage of the
// lock, and the next stage stops that. The goal of v8 cannot be reached, which is to be
// found out.
func Game() []Level {
	return []Level{
		{"none", GoalOversell},
		{"v1_setnx", GoalStuck},
		{"v2_ttl", GoalForeignDelete},
		{"v3_uuid", GoalForeignDelete},
		{"nested_v4_lua", GoalSelfWait},
		{"v5_reentrant", GoalOversell},
		{"v6_watchdog", GoalOversell},
		{"v7_queue", GoalOversell},
		{"v8_fenced", GoalOversell},
		{"v9_cohort", GoalOverlap},
	}
}

// shownBy is the kind of finding by which a goal is reached. Stuck has none: it is about what
// comes afterwards.
var shownBy = map[Goal]FindingKind{
	GoalOversell: Oversold, GoalOverlap: Overlap, GoalForeignDelete: ForeignDelete, GoalSelfWait: SelfWait,
}

// Patience is for how long everybody goes on before a buyer who is not served is stuck.
const Patience = 10 * ScheduleTTL

// Question is a schedule as the page asks for it.
type Question struct {
	Strategy string `json:"strategy"`
	Buyers   int    `json:"buyers"`
	Moves    string `json:"moves"` // as ParseMoves reads them
	Goal     Goal   `json:"goal"`  // as PlayFor takes it
}

// Answer returns what the schedule has led to. The error wraps ErrSchedule as that of Play.
func (q Question) Answer() (State, error) {
	moves, err := ParseMoves(q.Moves)
	if err != nil {
		return State{}, err
	}
	return PlayFor(Schedule{Strategy: q.Strategy, Buyers: q.Buyers, Moves: moves}, q.Goal)
}

// PlayFor is Play, and notes in State.Reached whether goal was reached. Play alone notes all
// goals but stuck, for which the schedule is played once more, to see who is served
// afterwards.
func PlayFor(sc Schedule, goal Goal) (State, error) {
	if goal != "" && !slices.Contains(Goals(), goal) {
		return State{}, fmt.Errorf("%w: unknown goal %s", ErrSchedule, shorten(string(goal)))
	}
	st, err := Play(sc)
	if err != nil || goal != GoalStuck {
		return st, err
	}
	waiting, err := Outlast(sc, Patience)
	if err != nil {
		return State{}, err
	}
	if len(waiting) > 0 {
		st.Reached, st.Unserved = append(st.Reached, GoalStuck), waiting
	}
	return st, nil
}

// reached are the goals that findings show.
func reached(findings []Finding) []Goal {
	goals := []Goal{}
	for _, g := range Goals() {
		kind, ok := shownBy[g]
		if ok && slices.ContainsFunc(findings, func(f Finding) bool { return f.Kind == kind }) {
			goals = append(goals, g)
		}
	}
	return goals
}

// Outlast plays a schedule, and then lets everybody who lives go on for that long without
// another fault: frozen processes go on, each buyer's commands are let go in turn, and
// time passes when there are none. It returns who is not served by then. The errors are
// those of Play.
func Outlast(sc Schedule, d time.Duration) (waiting []string, err error) {
	err = sc.play(func(s *staging) { waiting = s.outlast(d) })
	return waiting, err
}

func (s *staging) outlast(d time.Duration) (waiting []string) {
	for _, pl := range s.players {
		switch {
		case pl.dead:
		case pl.come != nil:
			pl.come()
		case pl.frozen:
			pl.frozen = false
			pl.p.Thaw()
		}
	}
	virtualtime.Wait()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !s.round() {
			s.pass(RetryDelay)
		}
	}
	for _, pl := range s.players {
		if status := pl.status(); status != Done && status != Dead {
			waiting = append(waiting, pl.name)
		}
	}
	return waiting
}

// round lets one command of each buyer go. It reports whether there was one.
func (s *staging) round() (any bool) {
	for _, pl := range s.players {
		commands := pl.commands()
		if pl.dead || len(commands) == 0 {
			continue
		}
		any = true
		pl.let(commands[0])
		virtualtime.Wait()
	}
	return any
}
