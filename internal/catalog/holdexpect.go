package catalog

import (
	"fmt"
	"slices"

	"oversell/internal/figures"
)

// mayBreak is the outcome of a stage that chance decides about: two shops may sweep at once.
var mayBreak = Expectation{Verdicts: []figures.Verdict{figures.OK, figures.Oversold, figures.Drift}}

// naive is the outcome of a stage that checks first and writes later. Its units are in Redis,
// and are sold again when a replica takes over that has none of the sale.
var naive = map[Condition]Expectation{
	Calm: mayBreak, Slow: mayBreak, Late: breaks, Crash: breaks, Pause: breaks, Partition: breaks, Failover: breaks,
}

// HoldConditions lists the conditions of a sale by holds.
func HoldConditions() []Condition {
	return []Condition{Calm, Slow, Late, Crash, Pause, Partition, Failover}
}

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

// HoldCase is a run of a stage for which there is an Expectation.
type HoldCase struct {
	Condition Condition
	// Cancels says that the kills of a crash may lose units as well as sell some twice, so that
	// the sum is left to chance.
	Cancels bool
	// InFile says that the database is a file, from which no shop can be cut off.
	InFile bool
}

// Expect returns the expected outcome of the case, and false if it does not apply.
func (s HoldStage) Expect(c HoldCase) (Expectation, bool) {
	e, known := s.sale[c.Condition]
	unharmed := c.Condition == Failover && !s.InRedis || c.Condition == Partition && !s.InRedis && c.InFile
	if known && !s.Sound() && (unharmed || c.Condition == Crash && c.Cancels) {
		e = mayBreak
	}
	return e, known
}
