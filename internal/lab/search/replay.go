package search

import (
	"errors"
	"fmt"
	"slices"

	"oversell/internal/lab"
)

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
	subject, err := lab.Scheduled(strategy, buyers)
	if err != nil {
		return err
	}
	if why := goal.NotApplicable(subject); why != "" {
		return fmt.Errorf("%w: %s is not applicable to %s: %s", errNotReplayed, goal, strategy, why)
	}
	state, err := lab.PlayFor(lab.Schedule{Strategy: strategy, Buyers: buyers, Moves: moves}, goal)
	if err != nil {
		return err
	}
	reached := slices.Contains(state.Reached, goal)
	switch {
	case !reached && goal == Stuck:
		return fmt.Errorf("%w: all are served within %v", errNotReplayed, lab.Patience)
	case !reached:
		return fmt.Errorf("%w: %s by %s", errNotReplayed, goal, text)
	}
	return nil
}
