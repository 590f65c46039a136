package catalog

import (
	"slices"

	"oversell/internal/figures"
	hold "oversell/internal/holds"
	h1 "oversell/internal/holds/h1_counter"
	h2 "oversell/internal/holds/h2_status"
	h3 "oversell/internal/holds/h3_claim"
	"oversell/internal/naming"
)

// HoldStage describes one way of keeping holds, and what is claimed about it.
type HoldStage struct {
	Name   string
	Adds   string // what it adds to the stage before it
	Breaks string // what still breaks

	InRedis bool // its units and holds are in Redis; otherwise it does not use Redis

	New func(hold.Backends) hold.Stage

	sale map[Condition]Expectation
}

// HoldStages lists the stages of a sale by holds, in the order of the lessons.
func HoldStages() []HoldStage {
	return []HoldStage{
		{
			Name:    h1.Name,
			Adds:    "a counter in Redis, and a hold with an expiry beside it",
			Breaks:  "a late payment sells the unit twice, and a crash loses it",
			InRedis: true,
			New:     func(b hold.Backends) hold.Stage { return h1.New(b) },
			sale:    naive,
		},
		{
			Name:   h2.Name,
			Adds:   "a row in the database, whose status says what became of the hold",
			Breaks: "the status changes between the read and the write: two sweeps give the unit back twice",
			New:    func(b hold.Backends) hold.Stage { return h2.New(b) },
			sale:   naive,
		},
		{
			Name:   h3.Name,
			Adds:   "one conditional UPDATE decides how the hold ends, in the transaction of the order and the stock",
			Breaks: "a payment that loses the race is refunded later, not in the same transaction",
			New:    func(b hold.Backends) hold.Stage { return h3.New(b) },
			sale:   always(overlaps),
		},
	}
}

// DefaultHoldStage is the stage that a shop and the bench use by default.
const DefaultHoldStage = h3.Name

// Holds makes all stages on the given backends, and returns them by name.
func Holds(b hold.Backends) map[string]hold.Stage {
	all := make(map[string]hold.Stage)
	for _, stage := range HoldStages() {
		all[stage.Name] = stage.New(b)
	}
	return all
}

// mayBreak is the expectation if chance decides the outcome: two shops may sweep at the same time.
var mayBreak = Expectation{Verdicts: []figures.Verdict{figures.OK, figures.Oversold, figures.Drift}}

// naive lists the outcomes of a stage that checks first and writes later. Its units are in Redis,
// and are sold again if a replica without the data of the sale takes over.
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

// FindHoldStage returns the stage with the given name. Its error wraps ErrName.
func FindHoldStage(name string) (HoldStage, error) {
	return naming.Find("stage of holds", name, HoldStages(), HoldNames())
}

// Sound reports whether the stage is expected to be correct under every condition.
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
	// Cancels says that the kills of a crash may lose some units and sell others twice, so that
	// chance decides the total.
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
