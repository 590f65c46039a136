// Package lockbench has a crowd contend for one hot lock, and measures the lock.
// There is no shop: each of a row's contenders takes the lock once, reads a
// counter by GET, writes it back less one by SET, and lets go. Such a turn is
// called a deduct.
//
// The crowd stands in processes of its own, so that one of them can be killed
// or stopped in the middle of a row (Disturb). All have their connections and
// stand ready before the first is let go. Each row has a key of its own, and
// processes of its own: nothing that is left of one can count for the next.
//
// What is measured is in Row; who can be measured, in Contenders. Whether a
// lock does its part is not asked of the lock: the counter must have gone down
// by as many as were served, and the times at which each was inside, by the
// clock that all processes of a machine share, must not overlap.
package lockbench

import (
	"errors"
	"fmt"
	"os/exec"
	"time"
)

// ErrConfig is what the errors for a Config that cannot be run wrap.
var ErrConfig = errors.New("cannot be run")

// Config says what to run. What is zero stands for its default.
type Config struct {
	// RedisURL is what backend.DialRedis takes. There is no default.
	RedisURL string

	// Command makes the command that runs Serve with the same Catalog, as a
	// process of its own. There is no default.
	Command func() (*exec.Cmd, error)

	Contenders int // in all, spread evenly over the processes; default 5,000
	Processes  int // default 1
	Pool       int // connections to Redis that a process has at most; default 128

	// TTL is the lease of the locks. The locks of others keep their own, where
	// they have one. Default 5 s, which is rueidislock's: redsync has 8 s.
	TTL time.Duration

	// Wait is how long a contender waits, from the common start. Who has not
	// been let in by then counts as never served. Default 60 s.
	Wait time.Duration

	// Disturb says what is done to the processes in the middle of each row.
	// Default nothing.
	Disturb Disturb

	// Names are the contenders of Run, by name. Default all of the Catalog.
	Names []string

	// Catalog has the contenders that there are. Default Contenders().
	Catalog Catalog
}

// The defaults of a Config, and the bounds of what can be asked for.
const (
	DefaultContenders = 5000
	DefaultTTL        = 5 * time.Second
	DefaultWait       = time.Minute
	DefaultPool       = 128

	MaxContenders = 200_000
	MaxProcesses  = 64
	maxPool       = 10_000
	maxDuration   = time.Hour
)

// WithDefaults returns the config with what is zero filled in.
func (c Config) WithDefaults() Config {
	orElse(&c.Contenders, DefaultContenders)
	orElse(&c.Processes, 1)
	orElse(&c.Pool, DefaultPool)
	orElse(&c.TTL, DefaultTTL)
	orElse(&c.Wait, DefaultWait)
	if c.Disturb.any() {
		orElse(&c.Disturb.After, DefaultAfter)
	}
	if c.Catalog == nil {
		c.Catalog = Contenders()
	}
	if len(c.Names) == 0 {
		c.Names = c.Catalog.Names()
	}
	return c
}

func orElse[T comparable](v *T, fallback T) {
	var zero T
	if *v == zero {
		*v = fallback
	}
}

// Check returns an error that wraps ErrConfig, or locks.ErrName for a contender
// that is not in the catalog, if the config cannot be run. It is for a config
// that has its defaults.
func (c Config) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	switch {
	case c.RedisURL == "":
		return bad("no Redis")
	case c.Command == nil:
		return bad("no command that runs a process")
	case c.Processes < 1 || c.Processes > MaxProcesses:
		return bad("%d processes; allowed: 1 to %d", c.Processes, MaxProcesses)
	case c.Contenders < c.Processes || c.Contenders > MaxContenders:
		return bad("%d contenders in %d processes; allowed: one for each process, to %d", c.Contenders, c.Processes, MaxContenders)
	case c.Pool < 1 || c.Pool > maxPool:
		return bad("a pool of %d; allowed: 1 to %d", c.Pool, maxPool)
	case c.TTL < 10*time.Millisecond || c.TTL > maxDuration:
		return bad("a ttl of %v; allowed: 10ms to %v", c.TTL, maxDuration)
	case c.Wait < time.Millisecond || c.Wait > maxDuration:
		return bad("a wait of %v; allowed: 1ms to %v", c.Wait, maxDuration)
	}
	for _, name := range c.Names {
		if _, err := c.Catalog.Find(name); err != nil {
			return err
		}
	}
	return c.Disturb.check(c.Processes)
}

// crowds spreads the contenders evenly over the processes.
func (c Config) crowds() []int {
	sizes := make([]int, c.Processes)
	for i := range sizes {
		sizes[i] = c.Contenders / c.Processes
		if i < c.Contenders%c.Processes {
			sizes[i]++
		}
	}
	return sizes
}
