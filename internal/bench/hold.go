package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/present"
)

// In the hold workload, buyers hold a unit and pay later. Its strategies are stages, and its
// requests are buyers. Faults are injected at the seams of such a sale. When the load is over and
// every hold was paid or released or has expired, the remaining units are sold; then units, holds,
// orders and the ledger of the payment provider must agree.

// The defaults of the hold workload.
const (
	HoldBuyers    = 400
	HoldStock     = 200
	holdInstances = 2
)

// The bounds of the hold workload.
const (
	maxBuyers        = 20_000
	maxHoldStock     = 100_000
	maxHoldInstances = 16
	minHoldTTL       = 200 * time.Millisecond
	// maxHoldTTL is low enough that a call that is held up for longer than a ttl stays within the
	// time limits of the shop's calls.
	maxHoldTTL = 10 * time.Second
)

// defaultsForHolds fills in the defaults of the hold workload.
func (c Config) defaultsForHolds() Config {
	c.Keys = UniqueKeys
	if len(c.Strategies) == 0 {
		c.Strategies = catalog.HoldNames()
	}
	if len(c.Conditions) == 0 {
		// The other conditions take longer, or need other servers.
		c.Conditions = []catalog.Condition{catalog.Calm, catalog.Slow, catalog.Late, catalog.Crash, catalog.Pause}
	}
	c.Requests = cmp.Or(c.Requests, HoldBuyers)
	c.Stock = cmp.Or(c.Stock, HoldStock)
	c.Instances = cmp.Or(c.Instances, holdInstances)
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	return c
}

// checkHolds does the work of Check for the hold workload.
func (c Config) checkHolds() error {
	if err := cmp.Or(
		Within(present.Plural(c.Requests, "buyer"), c.Requests, 1, maxBuyers),
		Within(fmt.Sprint("a stock of ", c.Stock), c.Stock, 1, maxHoldStock),
		Within(present.Plural(c.Instances, "instance"), c.Instances, 2, maxHoldInstances),
		Within(fmt.Sprint("a ttl of ", c.TTL), c.TTL, minHoldTTL, maxHoldTTL),
	); err != nil {
		return err
	}
	for _, name := range c.Strategies {
		if _, err := catalog.FindHoldStage(name); err != nil {
			return err
		}
	}
	for _, condition := range c.Conditions {
		if !slices.Contains(catalog.HoldConditions(), condition) {
			return Invalid("condition %s with workload %s; allowed: %v", condition, catalog.Hold,
				catalog.HoldConditions())
		}
	}
	return cmp.Or(c.CheckRows(), c.checkSeams(HoldSeams()), c.checkRedis())
}

// holdSeams returns the seams at which the crash condition kills the shops of a stage, in turn. A
// stage that is not sound may lose units at some seams and sell units twice at others. By default,
// shops of such a stage are killed only at seams with the same effect, because the two effects might
// cancel out.
func (c Config) holdSeams(stage catalog.HoldStage) []fleet.Seam {
	switch {
	case len(c.Seams) > 0:
		return c.Seams
	case stage.Sound():
		return HoldSeams()
	}
	return []fleet.Seam{AfterCapture, AfterOrder}
}

// cancels reports whether units that are lost at one of the seams may hide units that are sold
// twice at another.
func cancels(at []fleet.Seam) bool {
	return slices.Contains(at, AfterTake) || slices.Contains(at, BeforeRestock) || !slices.Contains(at, AfterOrder)
}

// sweep returns the mean time between two sweeps of a shop whose holds last ttl.
func sweep(ttl time.Duration) time.Duration { return ttl / 10 }

// settlesAfter returns the time after which a shop settles an interrupted payment. It leaves enough
// time for held-up processes to go on and for webhooks to arrive: settling must not hide their
// effects.
func settlesAfter(ttl time.Duration) time.Duration { return 6 * ttl }
