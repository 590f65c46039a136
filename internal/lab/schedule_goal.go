package lab

import (
	"fmt"
	"slices"
	"time"

	"oversell/internal/guard"
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

// NotApplicable says why the goal means nothing for a subject. It is "" if it means something.
func (g Goal) NotApplicable(c Subject) string {
	ofLock := g == GoalOverlap || g == GoalForeignDelete || g == GoalSelfWait
	switch {
	case ofLock && c.Lock == nil:
		return "there is no lock to break"
	case ofLock && g != GoalOverlap && !c.InRedis():
		return "its lock is in its process, and this is about a lock in Redis"
	}
	return ""
}

// Level is a level of the game on the page: a strategy, and the goal to reach with it.
type Level struct {
	Strategy  string `json:"strategy"`
	Goal      Goal   `json:"goal"`
	Faultless bool   `json:"faultless,omitempty"` // it is won only without a fault
}

// Game returns the levels in their order. Each shows what is wrong with one stage of the
// lock, and the next stage stops that. The goal of v8 cannot be reached, which is to be
// found out. A frozen process would break v5 as well as v6 and v7, so at v5 only time passes:
// no schedule wins three levels in a row.
func Game() []Level {
	return []Level{
		{Strategy: "none", Goal: GoalOversell},
		{Strategy: "v1_setnx", Goal: GoalStuck},
		{Strategy: "v2_ttl", Goal: GoalForeignDelete},
		{Strategy: "v3_uuid", Goal: GoalForeignDelete},
		{Strategy: "nested_v4_lua", Goal: GoalSelfWait},
		{Strategy: "v5_reentrant", Goal: GoalOversell, Faultless: true},
		{Strategy: "v6_watchdog", Goal: GoalOversell},
		{Strategy: "v7_queue", Goal: GoalOversell},
		{Strategy: "v8_fenced", Goal: GoalOversell},
		{Strategy: "v9_cohort", Goal: GoalOverlap},
	}
}

// Allows reports whether the level can be won by these moves: one that is faultless allows
// no process that stops or dies, and no lost reply.
func (l Level) Allows(moves []Move) bool {
	return !l.Faultless || !slices.ContainsFunc(moves, func(m Move) bool {
		return m.Action == Freeze || m.Action == Kill || m.Action == Lose
	})
}

// shownBy is the kind of finding by which a goal is reached. Stuck has none here: it is about
// what comes afterwards, which PlayFor finds out.
var shownBy = map[Goal]FindingKind{
	GoalOversell: Oversold, GoalOverlap: Overlap, GoalForeignDelete: ForeignDelete, GoalSelfWait: SelfWait,
}

// Patience is for how long everybody goes on before a buyer who is not served is stuck.
const Patience = 10 * ScheduleTTL

// Question is a schedule as the page asks for it.
type Question struct {
	Strategy string `json:"strategy"` // or a short name: see guard.Expand
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
	return PlayFor(Schedule{Strategy: guard.Expand(q.Strategy, Levels()), Buyers: q.Buyers, Moves: moves}, q.Goal)
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
		st.find(Unserved, waiting[0], st.whyStuck(waiting))
	}
	return st, nil
}

// find adds a finding to a state that has been played.
func (st *State) find(kind FindingKind, actor, text string) {
	st.Findings = append(st.Findings, Finding{At: st.Now, Kind: kind, Actor: actor, Text: text})
	st.Trace = append(st.Trace, Event{At: st.Now, Actor: actor, Kind: Break, Text: text})
}

// whyStuck says why buyers wait for ever: a lock that is left behind, or something else.
func (st *State) whyStuck(waiting []string) string {
	if st.Lock.Redis != "" && st.Lock.Redis != "free" && st.Lock.TTL == nil {
		return "nobody can take this lock any more: it never expires"
	}
	return list(waiting) + " would wait for ever"
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
	err = sc.play(func(g *game) { waiting = g.outlast(d) })
	return waiting, err
}

func (g *game) outlast(d time.Duration) (waiting []string) {
	for _, pl := range g.players {
		switch {
		case pl.dead:
		case !pl.came:
			pl.come()
		case pl.frozen:
			pl.frozen = false
			pl.p.Thaw()
			pl.Thaw()
		}
	}
	g.settle()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if !g.round() {
			g.pass(RetryDelay)
		}
	}
	for _, pl := range g.players {
		if status := pl.status(); status != Done && status != Dead {
			waiting = append(waiting, pl.name)
		}
	}
	return waiting
}

// round lets one command of each buyer go. It reports whether there was one.
func (g *game) round() (any bool) {
	for _, pl := range g.players {
		commands := pl.commands()
		if len(commands) == 0 {
			continue
		}
		any = true
		pl.let(commands[0], false)
	}
	return any
}
