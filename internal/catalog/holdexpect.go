package catalog

import (
	"fmt"
	"slices"

	"oversell/internal/figures"
)

// mayBreak is the outcome of a stage that chance decides about: two shops may sweep at once.
var mayBreak = Expectation{Verdicts: []figures.Verdict{figures.OK, figures.Oversold, figures.Drift}}

// naive is the outcome of a stage that checks first and writes later.
var naive = map[Condition]Expectation{Calm: mayBreak, Slow: mayBreak, Late: breaks, Crash: breaks, Pause: breaks}

// HoldConditions lists the conditions of a sale by holds.
func HoldConditions() []Condition { return []Condition{Calm, Slow, Late, Crash, Pause} }

// HoldNames lists the names of the stages.
func HoldNames() []string {
	var names []string
	for _, s := range HoldStages() {
		names = append(names, s.Name)
	}
	return names
}

// FindHoldStage returns the stage called name. Its error wraps ErrName.
func FindHoldStage(name string) (HoldStage, error) {
	for _, s := range HoldStages() {
		if s.Name == name {
			return s, nil
		}
	}
	return HoldStage{}, fmt.Errorf("%w of a stage of holds: %q (allowed: %v)", ErrName, name, HoldNames())
}

// Sound reports whether the stage must come to no harm under every condition.
func (s HoldStage) Sound() bool {
	for _, e := range s.sale {
		if !slices.Equal(e.Verdicts, ok) {
			return false
		}
	}
	return true
}

// Expect returns the expected outcome under a condition, and false if it does not apply. Under
// crash, cancels says that the kills may lose units as well as sell some twice, so that the
// sum is left to chance.
func (s HoldStage) Expect(c Condition, cancels bool) (Expectation, bool) {
	e, known := s.sale[c]
	if known && c == Crash && cancels && !s.Sound() {
		e = mayBreak
	}
	return e, known
}
