// Package lockbench measures one hot lock with many contenders. There is no shop: each contender of
// a row takes the lock once, reads a counter with GET, decrements it with SET, and unlocks. Such a
// turn is called a deduction.
//
// The contenders run in separate processes, so that one of them can be killed or stopped in the
// middle of a row. All have their connections and are ready before the common start. Each row has
// its own keys and processes: nothing left over from one row can count in the next.
//
// report.Lock holds the figures, and Contenders lists the locks. Whether a lock holds is measured
// independently of the lock: the counter must have decreased by the number of contenders served,
// and the times that they spent inside, on the clock that all processes of a machine share, must
// not overlap.
package lockbench

import (
	"cmp"
	"fmt"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/present"
)

// The bounds of a config.
const (
	maxContenders = 200_000
	maxProcesses  = 64
)

// pool is the maximum number of Redis connections of a process.
const pool = 128

// WithDefaults returns the config with the workload's defaults filled in. Its requests are the
// contenders of a row, its instances are processes, and its strategies are names of Contenders.
func WithDefaults(c bench.Config) bench.Config {
	c.Workload = report.WorkloadLock
	c.Requests = cmp.Or(c.Requests, 5000)
	c.Instances = cmp.Or(c.Instances, 1)
	// As in rueidislock; redsync has 8 s. Libraries with a default lease keep it.
	c.TTL = cmp.Or(c.TTL, 5*time.Second)
	c.Wait = cmp.Or(c.Wait, time.Minute) // from the common start; a contender that waits longer counts as never served
	c.Repeat = cmp.Or(c.Repeat, 1)
	c.ID = cmp.Or(c.ID, bench.NewID())
	if len(c.Strategies) == 0 {
		c.Strategies = usual()
	}
	if len(c.Conditions) == 0 {
		c.Conditions = []catalog.Condition{catalog.Calm}
	}
	return c
}

// Check returns an error that wraps bench.ErrConfig, or catalog.ErrName for an unknown contender or
// condition, if a config with its defaults cannot be run.
func Check(list Catalog, c bench.Config) error {
	if err := cmp.Or(
		bench.Within(present.Plural(c.Instances, "process"), c.Instances, 1, maxProcesses),
		bench.Within(present.Plural(c.Requests, "contender"), c.Requests, c.Instances, maxContenders),
		bench.Within(fmt.Sprint("a ttl of ", c.TTL), c.TTL, 10*time.Millisecond, bench.MaxDuration),
		bench.Within(fmt.Sprint("a wait of ", c.Wait), c.Wait, time.Millisecond, bench.MaxDuration),
	); err != nil {
		return err
	}
	for _, name := range c.Strategies {
		if _, err := list.Find(name); err != nil {
			return err
		}
	}
	for _, condition := range c.Conditions {
		f, known := faults()[condition]
		switch {
		case !known:
			return fmt.Errorf("-conditions: %w of a condition: %q"+
				" (allowed with -workload lock: calm, crash, pause, crash+pause)", catalog.ErrName, condition)
		case f.any() && !fleet.LiveWords:
			return bench.Invalid("%w", fleet.ErrUnsupported)
		case f.any() && c.Instances < 2:
			return bench.Invalid("a fault needs another process that keeps running: at least 2")
		}
	}
	return c.CheckRows()
}

// share returns the number of contenders of the i-th process. They are spread evenly.
func share(c bench.Config, i int) int {
	if i < c.Requests%c.Instances {
		return c.Requests/c.Instances + 1
	}
	return c.Requests / c.Instances
}
