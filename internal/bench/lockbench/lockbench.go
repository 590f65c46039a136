// Package lockbench measures one hot lock with many contenders. There is no shop: each
// contender of a row takes the lock once, reads a counter with GET, decrements it with
// SET, and unlocks. Such a turn is called a deduct.
//
// The contenders run in separate processes, so that one of them can be killed or stopped
// in the middle of a row (Fault). All have their connections and are ready before the
// common start. Each row has its own keys and processes: nothing that is left of one row
// can count for the next.
//
// report.Lock has the figures, Contenders the locks. Whether a lock holds is not asked of the lock:
// the counter must have decreased by the number of contenders served, and the times that
// they spent inside, by the clock that all processes of a machine share, must not overlap.
package lockbench

import (
	"cmp"
	"fmt"
	"os/exec"
	"time"

	"oversell/internal/backend/lockservers"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// Config says what to run. Zero values stand for the defaults.
type Config struct {
	// RedisURL is what backend.DialRedis takes. There is no default.
	RedisURL string

	// Servers are those that the named contenders need besides. A process connects to all.
	Servers lockservers.Addresses

	// Command returns the command that runs Serve with the same Catalog. There is no
	// default.
	Command func() (*exec.Cmd, error)

	Contenders int // in all, spread evenly over the processes; default 5,000
	Processes  int // default 1

	// TTL is the lease of the locks. Libraries keep their own default if they have one.
	// Default 5 s, as in rueidislock; redsync has 8 s.
	TTL time.Duration

	// Wait is how long a contender waits, from the common start. After that it counts as
	// never served. Default 60 s.
	Wait time.Duration

	Names      []string            // of the contenders to run; default Usual
	Conditions []catalog.Condition // default calm
	Repeat     int                 // runs of each row; default 1

	// Catalog lists the contenders, and Faults those of the conditions. The defaults are Contenders and
	// Faults.
	Catalog Catalog
	Faults  map[catalog.Condition]Fault
}

// The bounds of a Config.
const (
	maxContenders = 200_000
	maxProcesses  = 64
	maxDuration   = time.Hour
)

// pool is the most Redis connections of a process.
const pool = 128

// WithDefaults returns the config with its defaults filled in.
func (c Config) WithDefaults() Config {
	c.Contenders = cmp.Or(c.Contenders, 5000)
	c.Processes = cmp.Or(c.Processes, 1)
	c.TTL = cmp.Or(c.TTL, 5*time.Second)
	c.Wait = cmp.Or(c.Wait, time.Minute)
	c.Repeat = cmp.Or(c.Repeat, 1)
	if c.Catalog == nil {
		c.Catalog = Contenders()
	}
	if c.Faults == nil {
		c.Faults = Faults()
	}
	if len(c.Names) == 0 {
		c.Names = Usual()
	}
	if len(c.Conditions) == 0 {
		c.Conditions = []catalog.Condition{catalog.Calm}
	}
	return c
}

// Check returns an error that wraps bench.ErrConfig, or catalog.ErrName for a contender
// that is not in the catalog, if the config cannot be run. It is for a config
// that has its defaults.
func (c Config) Check() error {
	switch {
	case c.Processes < 1 || c.Processes > maxProcesses:
		return bench.Invalid("%d processes; allowed: 1 to %d", c.Processes, maxProcesses)
	case c.Contenders < c.Processes || c.Contenders > maxContenders:
		return bench.Invalid("%d contenders in %d processes; allowed: one for each process, to %d", c.Contenders, c.Processes, maxContenders)
	case c.TTL < 10*time.Millisecond || c.TTL > maxDuration:
		return bench.Invalid("a ttl of %v; allowed: 10ms to %v", c.TTL, maxDuration)
	case c.Wait < time.Millisecond || c.Wait > maxDuration:
		return bench.Invalid("a wait of %v; allowed: 1ms to %v", c.Wait, maxDuration)
	}
	for _, name := range c.Names {
		if _, err := c.Catalog.Find(name); err != nil {
			return err
		}
	}
	for _, condition := range c.Conditions {
		d, known := c.Faults[condition]
		switch {
		case !known:
			return fmt.Errorf("-conditions: unknown name of a condition: %q (allowed with -workload lock: calm, crash, pause, crash+pause)", condition)
		case d.any() && !fleet.LiveWords:
			return bench.Invalid("%w", fleet.ErrUnsupported)
		case d.any() && c.Processes < 2:
			return bench.Invalid("a fault needs another process that goes on: at least 2")
		}
	}
	return bench.CheckTwice(c.Names, c.Conditions)
}

// stop is the longest that a process is stopped.
func (c Config) stop() (longest time.Duration) {
	for _, condition := range c.Conditions {
		longest = max(longest, c.Faults[condition].Stop)
	}
	return longest
}

// Manifest says what the rows are run with, on the Redis that redis describes.
func (c Config) Manifest(redis string) report.Manifest {
	m := report.NewManifest(redis, "none")
	m.Requests, m.Instances, m.Workload = c.Contenders, c.Processes, string(report.WorkloadLock)
	m.TTL, m.Wait, m.Repeat = c.TTL.String(), c.Wait.String(), c.Repeat
	m.Planned = c.Repeat * len(c.Conditions) * len(c.Names)
	return m
}

// share is how many contenders the i-th process has: they are spread evenly.
func (c Config) share(i int) int {
	if i < c.Contenders%c.Processes {
		return c.Contenders/c.Processes + 1
	}
	return c.Contenders / c.Processes
}
