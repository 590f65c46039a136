// Package lockbench measures one hot lock with many contenders. There is no shop: each
// contender of a row takes the lock once, reads a counter with GET, decrements it with
// SET, and unlocks. Such a turn is called a deduct.
//
// The contenders run in separate processes, so that one of them can be killed or stopped
// in the middle of a row (Fault). All have their connections and are ready before the
// common start. Each row has its own keys and processes: nothing that is left of one row
// can count for the next.
//
// Row has the figures, Contenders the locks. Whether a lock holds is not asked of the lock:
// the counter must have decreased by the number of contenders served, and the times that
// they spent inside, by the clock that all processes of a machine share, must not overlap.
package lockbench

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"oversell/internal/backend/lockservers"
)

// ErrConfig is wrapped by the errors for a Config that cannot be run.
var ErrConfig = errors.New("cannot be run")

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
	Pool       int // most Redis connections of a process; default 128

	// TTL is the lease of the locks. Libraries keep their own default if they have one.
	// Default 5 s, as in rueidislock; redsync has 8 s.
	TTL time.Duration

	// Wait is how long a contender waits, from the common start. After that it counts as
	// never served. Default 60 s.
	Wait time.Duration

	// Fault is injected in the middle of each row. Default none.
	Fault Fault

	// Names are the contenders to run. Default all of the Catalog.
	Names []string

	// Catalog lists the contenders. Default Contenders().
	Catalog Catalog
}

// The defaults and the bounds of a Config.
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

// WithDefaults returns the config with its defaults filled in.
func (c Config) WithDefaults() Config {
	orElse(&c.Contenders, DefaultContenders)
	orElse(&c.Processes, 1)
	orElse(&c.Pool, DefaultPool)
	orElse(&c.TTL, DefaultTTL)
	orElse(&c.Wait, DefaultWait)
	if c.Fault.any() {
		orElse(&c.Fault.After, DefaultAfter)
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
	return c.Fault.check(c.Processes)
}

// share is how many contenders the i-th process has: they are spread evenly.
func (c Config) share(i int) int {
	if i < c.Contenders%c.Processes {
		return c.Contenders/c.Processes + 1
	}
	return c.Contenders / c.Processes
}
