// Package holdsale is the bench's workload hold: buyers hold a unit and pay later, in several
// shops that are processes of their own, with a payment provider that is another one. Faults
// are injected at the seams of a sale by holds. When the load is over and every hold has been
// paid, released or has expired, what is left is sold out; then units, holds, orders and the
// provider's ledger must agree.
package holdsale

import (
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/google/uuid"

	"oversell/internal/backend"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/present"
)

// Config says what to run. Zero values stand for the defaults.
type Config struct {
	Stages     []string // default all
	Conditions []catalog.Condition
	Buyers     int   // default DefaultBuyers
	Stock      int64 // default DefaultStock
	Instances  int   // shops; default DefaultInstances
	TTL        time.Duration
	Repeat     int
	Seams      []fleet.Seam // at which crash kills, in turn; default depends on the stage
	deaf       bool         // the provider sends no webhooks
	ID         string       // unique among benches; default random

	RedisURL string
	DBURL    string
	// Failovers is the Redis at RedisURL, if it can fail over: see bench.Config.
	Failovers bench.Failovers
	Shop      func() (*exec.Cmd, error) // runs ServeShop
	Provider  func() (*exec.Cmd, error) // runs ServeProvider
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
	MaxBuyers    = 20_000
	MaxStock     = 100_000
	MaxInstances = 16
	MaxRepeat    = 100
	MinTTL       = 200 * time.Millisecond
	// MaxTTL keeps a call that is held up for longer than it within the time limits of the
	// shop's calls.
	MaxTTL = 10 * time.Second
)

// WithDefaults returns the config with its defaults filled in.
func (c Config) WithDefaults() Config {
	if len(c.Stages) == 0 {
		c.Stages = catalog.HoldNames()
	}
	if len(c.Conditions) == 0 {
		// The others take longer, or need other servers.
		c.Conditions = []catalog.Condition{catalog.Calm, catalog.Slow, catalog.Late, catalog.Crash, catalog.Pause}
	}
	if slices.Contains(c.Seams, BeforeRefund) && !slices.Contains(c.Seams, AfterCapture) {
		// The kill after a capture is what makes a refund.
		c.Seams = append([]fleet.Seam{AfterCapture}, c.Seams...)
	}
	c.Buyers = cmp.Or(c.Buyers, DefaultBuyers)
	c.Stock = cmp.Or(c.Stock, DefaultStock)
	c.Instances = cmp.Or(c.Instances, DefaultInstances)
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	c.Repeat = cmp.Or(c.Repeat, 1)
	if c.ID == "" {
		c.ID = uuid.NewString()[:8]
	}
	return c
}

// Check returns an error that wraps bench.ErrConfig or catalog.ErrName if the config cannot be run.
func (c Config) Check() error {
	switch {
	case c.Buyers < 1 || c.Buyers > MaxBuyers:
		return bench.Invalid("%s; allowed: 1 to %d", present.Plural(c.Buyers, "buyer"), MaxBuyers)
	case c.Stock < 1 || c.Stock > MaxStock:
		return bench.Invalid("a stock of %d; allowed: 1 to %d", c.Stock, MaxStock)
	case c.Instances < 2 || c.Instances > MaxInstances:
		return bench.Invalid("%s; allowed: 2 to %d", present.Plural(c.Instances, "instance"), MaxInstances)
	case c.TTL < MinTTL || c.TTL > MaxTTL:
		return bench.Invalid("a ttl of %v; allowed: %v to %v", c.TTL, MinTTL, MaxTTL)
	case c.Repeat < 1 || c.Repeat > MaxRepeat:
		return bench.Invalid("%d runs of each row; allowed: 1 to %d", c.Repeat, MaxRepeat)
	}
	for _, name := range c.Stages {
		if _, err := catalog.FindHoldStage(name); err != nil {
			return err
		}
	}
	for _, condition := range c.Conditions {
		if !slices.Contains(catalog.HoldConditions(), condition) {
			return bench.Invalid("condition %s with workload %s; allowed: %v", condition, catalog.Hold, catalog.HoldConditions())
		}
	}
	if err := bench.CheckTwice(c.Stages, c.Conditions); err != nil {
		return err
	}
	if len(c.Seams) > 0 && !slices.Contains(c.Conditions, catalog.Crash) {
		return bench.Invalid("seams without condition %s, which kills there", catalog.Crash)
	}
	for _, at := range c.Seams {
		if !slices.Contains(Seams(), at) {
			return fmt.Errorf("%w of a seam: %q (allowed: %v)", catalog.ErrName, at, Seams())
		}
	}
	return c.checkRedis()
}

// checkRedis returns an error for conditions that the Redis does not allow.
func (c Config) checkRedis() error {
	partition, failover := slices.Contains(c.Conditions, catalog.Partition), slices.Contains(c.Conditions, catalog.Failover)
	switch {
	case failover && partition:
		return bench.Invalid("conditions %s and %s in one run: one needs a single Redis, the other a sentinel set", catalog.Partition, catalog.Failover)
	case failover && c.Failovers == nil:
		return bench.Invalid("condition %s needs a Redis with replicas that the bench starts: -redis local", catalog.Failover)
	case partition && c.RedisURL != "": // otherwise it is not started yet
		if _, err := backend.SingleAddr(c.RedisURL); err != nil {
			return bench.Invalid("condition %s needs a Redis whose connections can be relayed (embedded, local or redis://host:port): %w", catalog.Partition, err)
		}
	}
	return nil
}

// Manifest says what the rows are run with, on the backends that redis and db describe.
func (c Config) Manifest(redis, db string) report.Manifest {
	c = c.WithDefaults()
	m := report.NewManifest(redis, db)
	m.ID, m.Requests, m.Stock, m.Workload = c.ID, c.Buyers, c.Stock, string(catalog.Hold)
	m.Instances, m.TTL, m.Repeat = c.Instances, c.TTL.String(), c.Repeat
	m.Keys = "unique"
	m.Planned = len(c.Stages) * len(c.Conditions) * c.Repeat
	return m
}

// seams are those at which crash kills the shops of a stage, in turn. By default a stage that
// may lose units and sell others twice meets only kills of which one kind follows: otherwise
// the two might cancel out.
func (c Config) seams(stage catalog.HoldStage) []fleet.Seam {
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
func (c Config) sweep() time.Duration { return c.TTL / 10 }

// settle is after which time a shop settles a payment that was interrupted. By then a process
// that was held up has gone on, and the webhooks have come: what they show is not to be hidden.
func (c Config) settle() time.Duration {
	if c.deaf {
		return c.TTL / 2
	}
	return 6 * c.TTL
}

// long is longer than a hold lives, and than a sweep may take to find that it has expired.
func (c Config) long() time.Duration { return c.TTL * 14 / 10 }
