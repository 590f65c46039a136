package catalog

import (
	hold "oversell/internal/holds"
	h1 "oversell/internal/holds/h1_counter"
	h2 "oversell/internal/holds/h2_status"
	h3 "oversell/internal/holds/h3_claim"
)

// HoldStage is one way of keeping holds, and what is claimed about it.
type HoldStage struct {
	Name   string
	Adds   string // what it has that the one before lacks
	Breaks string // what still breaks
	Test   string // the test that shows what breaks

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
			Test:    "TestLatePayment",
			InRedis: true,
			New:     func(b hold.Backends) hold.Stage { return h1.New(b) },
			sale:    naive,
		},
		{
			Name:   h2.Name,
			Adds:   "a row in the database, whose status says what became of the hold",
			Breaks: "the status changes between the read and the write: two sweeps give the unit back twice",
			Test:   "TestTwoSweeps",
			New:    func(b hold.Backends) hold.Stage { return h2.New(b) },
			sale:   naive,
		},
		{
			Name:   h3.Name,
			Adds:   "one conditional UPDATE decides how the hold ends, in the transaction of the order and the stock",
			Breaks: "a payment that loses the race is refunded later, not in the same transaction",
			Test:   "TestDiesBeforeRefund",
			New:    func(b hold.Backends) hold.Stage { return h3.New(b) },
			sale:   always(overlaps),
		},
	}
}

// DefaultHoldStage is the stage that a shop uses if nobody names another.
const DefaultHoldStage = h3.Name

// Holds makes all stages on these backends, by name.
func Holds(b hold.Backends) map[string]hold.Stage {
	all := make(map[string]hold.Stage)
	for _, stage := range HoldStages() {
		all[stage.Name] = stage.New(b)
	}
	return all
}
