package search

import (
	"errors"
	"fmt"
	"slices"

	"oversell/internal/lab"
)

// patience is for how long everybody goes on before a buyer who is not served is stuck.
const patience = 10 * lab.ScheduleTTL

// errNotReplayed means that the scheduler does not reach what the search has found. That
// is a fault of the search.
var errNotReplayed = errors.New("the scheduler does not reach it")

// Replay plays a schedule as the page does, with all buyers beside one server, and returns
// an error unless it reaches the goal. The strategy must be one of lab.Levels.
func Replay(strategy string, buyers int, goal Goal, text string) error {
	moves, err := lab.ParseMoves(text)
	if err != nil {
		return err
	}
	sc := lab.Schedule{Strategy: strategy, Buyers: buyers, Moves: moves}
	if goal == Stuck {
		waiting, err := lab.Outlast(sc, patience)
		if err == nil && len(waiting) == 0 {
			err = fmt.Errorf("%w: all are served within %v", errNotReplayed, patience)
		}
		return err
	}
	s, err := lab.Play(sc)
	if err != nil {
		return err
	}
	kind := map[Goal]lab.FindingKind{Oversell: lab.Oversold, Overlap: lab.Overlap, ForeignDelete: lab.ForeignDelete}[goal]
	if !slices.ContainsFunc(s.Findings, func(f lab.Finding) bool { return f.Kind == kind }) {
		return fmt.Errorf("%w: %s by %s", errNotReplayed, goal, text)
	}
	return nil
}
