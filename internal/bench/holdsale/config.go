// Package holdsale is the bench's workload hold: buyers hold a unit and pay later, in several
// shops that are processes of their own. Faults are injected at the seams of a sale by holds.
// When the load is over and every hold has been paid, released or has expired, what is left is
// sold out; then units, holds, orders and the ledger of the payment provider must agree.
package holdsale

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/present"
)

// config is what a row is run with. Its strategies are stages, and its requests are buyers.
type config struct {
	bench.Config
	deaf bool // the payment provider sends no webhooks
}

// The defaults of a Config.
const (
	DefaultBuyers    = 400
	DefaultStock     = 200
	DefaultInstances = 2
	DefaultTTL       = time.Second
)

// The bounds of a Config.
const (
	maxBuyers    = 20_000
	maxStock     = 100_000
	maxInstances = 16
	minTTL       = 200 * time.Millisecond
	// maxTTL keeps a call that is held up for longer than it within the time limits of the
	// shop's calls.
	maxTTL = 10 * time.Second
)

// WithDefaults returns the config with the workload's defaults filled in.
func WithDefaults(c bench.Config) bench.Config {
	c.Workload, c.Keys = catalog.Hold, bench.UniqueKeys
	if len(c.Strategies) == 0 {
		c.Strategies = catalog.HoldNames()
	}
	if len(c.Conditions) == 0 {
		// The others take longer, or need other servers.
		c.Conditions = []catalog.Condition{catalog.Calm, catalog.Slow, catalog.Late, catalog.Crash, catalog.Pause}
	}
	if slices.Contains(c.Seams, BeforeRefund) && !slices.Contains(c.Seams, AfterCapture) {
		// The kill after a capture is what makes a refund.
		c.Seams = append([]fleet.Seam{AfterCapture}, c.Seams...)
	}
	c.Requests = cmp.Or(c.Requests, DefaultBuyers)
	c.Stock = cmp.Or(c.Stock, DefaultStock)
	c.Instances = cmp.Or(c.Instances, DefaultInstances)
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Repeat = cmp.Or(c.Repeat, 1)
	if c.ID == "" {
		c.ID = uuid.NewString()[:8]
	}
	return c
}

// Check returns an error that wraps bench.ErrConfig or catalog.ErrName if a config with its
// defaults cannot be run.
func Check(c bench.Config) error {
	switch {
	case c.Requests < 1 || c.Requests > maxBuyers:
		return bench.Invalid("%s; allowed: 1 to %d", present.Plural(c.Requests, "buyer"), maxBuyers)
	case c.Stock < 1 || c.Stock > maxStock:
		return bench.Invalid("a stock of %d; allowed: 1 to %d", c.Stock, maxStock)
	case c.Instances < 2 || c.Instances > maxInstances:
		return bench.Invalid("%s; allowed: 2 to %d", present.Plural(c.Instances, "instance"), maxInstances)
	case c.TTL < minTTL || c.TTL > maxTTL:
		return bench.Invalid("a ttl of %v; allowed: %v to %v", c.TTL, minTTL, maxTTL)
	}
	for _, name := range c.Strategies {
		if _, err := catalog.FindHoldStage(name); err != nil {
			return err
		}
	}
	for _, condition := range c.Conditions {
		if !slices.Contains(catalog.HoldConditions(), condition) {
			return bench.Invalid("condition %s with workload %s; allowed: %v", condition, catalog.Hold,
				catalog.HoldConditions())
		}
	}
	return cmp.Or(c.CheckRows(), c.CheckSeams(Seams()), c.CheckRedis())
}

// seams are those at which crash kills the shops of a stage, in turn. By default a stage that
// may lose units and sell others twice meets only kills of which one kind follows: otherwise
// the two might cancel out.
func (c config) seams(stage catalog.HoldStage) []fleet.Seam {
	switch {
	case len(c.Seams) > 0:
		return c.Seams
	case stage.Sound():
		return Seams()
	}
	return []fleet.Seam{AfterCapture, AfterOrder}
}

// cancels reports whether units that are lost at one seam may hide units that are sold twice.
func cancels(at []fleet.Seam) bool {
	return slices.Contains(at, AfterTake) || slices.Contains(at, BeforeRestock) || !slices.Contains(at, AfterOrder)
}

// sweep is the mean time between two sweeps of a shop.
func (c config) sweep() time.Duration { return c.TTL / 10 }

// settle is after which time a shop settles a payment that was interrupted. By then a process
// that was held up has gone on, and the webhooks have come: what they show is not to be hidden.
func (c config) settle() time.Duration {
	if c.deaf {
		return c.TTL / 2
	}
	return 6 * c.TTL
}

// long is longer than a hold lives, and than a sweep may take to find that it has expired.
func (c config) long() time.Duration { return c.TTL * 14 / 10 }
