// Package bench fires thousands of concurrent requests at shops under each
// strategy and each condition, and reports what came out: what was oversold
// above all. The shops are processes of their own, so that one of them can be
// killed or stopped while it holds the lock.
package bench

import (
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/locks"
)

// ErrConfig is what the errors for a Config that cannot be run wrap.
var ErrConfig = errors.New("cannot be run")

// Keys says which requests carry the same idempotency key.
type Keys string

// The ways of giving out idempotency keys.
const (
	NoKeys     Keys = "none"   // no request has one
	UniqueKeys Keys = "unique" // each request has its own
	PairedKeys Keys = "pairs"  // every two requests share one, as a double click does
)

// Config says what to run. Its zero durations stand for the defaults.
type Config struct {
	Requests   int
	Stock      int64
	Workload   locks.Workload
	Strategies []string
	Conditions []locks.Condition
	Instances  int
	Keys       Keys
	SecondLook bool // cache: readers look again under the lock

	TTL    time.Duration // lease of a lock; default 1 s
	Work   time.Duration // what a holder takes for its work
	Wait   time.Duration // longest wait for a lock; default enough for everybody's turn
	Policy locks.Policy  // how to wait for a lock

	// Targets are the addresses of shops that run already. Without any, the
	// bench starts Instances shops of its own by Command, which must run Serve,
	// on the backends that RedisURL and DBURL name.
	Targets  []string
	Token    string // of the shops at Targets
	Command  func() (*exec.Cmd, error)
	RedisURL string
	DBURL    string

	Catalog locks.Catalog
}

// DefaultTTL is the lease of a lock where a Config names none.
const DefaultTTL = time.Second

// Bounds of what can be asked for.
const (
	MaxRequests  = 100_000
	MaxInstances = 64
	maxStock     = 1_000_000
	maxDuration  = time.Hour
)

const (
	minimumWait = 10 * time.Second
	perTurn     = 10 * time.Millisecond // allowed for one holder's turn, above its work

	// Open files that a shop's connections to an embedded Redis take in the
	// bench's process, with some to spare, and those that the bench takes for
	// itself. Each request takes one more.
	filesPerShop = 150
	filesForSelf = 200
)

// WithDefaults returns the config with its zero durations filled in, and its
// targets without a slash at the end.
func (c Config) WithDefaults() Config {
	targets := c.Targets
	c.Targets = nil
	for _, target := range targets {
		c.Targets = append(c.Targets, strings.TrimSuffix(target, "/"))
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	if c.Wait == 0 {
		c.Wait = c.defaultWait()
	}
	return c
}

// defaultWait is long enough for every holder that has work to do to have its
// turn, one after the other, under each of the conditions.
func (c Config) defaultWait() time.Duration {
	turns := c.turns()
	if c.Workload == locks.Cache && !c.SecondLook {
		turns = int64(c.Requests)
	}
	var delay time.Duration
	for _, condition := range c.Conditions {
		delay = max(delay, time.Duration(c.shops())*c.delay(condition))
	}
	return max(minimumWait, time.Duration(turns)*(c.Work+perTurn)) + delay
}

// turns is how many holders have work to do, where the guard does its part. A
// cold key is loaded but once.
func (c Config) turns() int64 {
	if c.Workload == locks.Cache {
		return 1
	}
	return min(c.Stock, int64(c.Requests))
}

// shops is the number of shops that take part.
func (c Config) shops() int {
	if len(c.Targets) > 0 {
		return len(c.Targets)
	}
	return c.Instances
}

// Check returns an error that wraps ErrConfig, or locks.ErrName for a strategy
// that is not in the catalog, if the config cannot be run.
func (c Config) Check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	switch {
	case c.Requests < 1 || c.Requests > MaxRequests:
		return bad("%d requests; allowed: 1 to %d", c.Requests, MaxRequests)
	case c.Stock < 1 || c.Stock > maxStock:
		return bad("a stock of %d; allowed: 1 to %d", c.Stock, maxStock)
	case c.Instances < 1 || c.Instances > MaxInstances:
		return bad("%d instances; allowed: 1 to %d", c.Instances, MaxInstances)
	case c.shops() > c.Requests:
		return bad("%d shops for %d requests: each needs at least one", c.shops(), c.Requests)
	case !slices.Contains([]Keys{NoKeys, UniqueKeys, PairedKeys}, c.Keys):
		return bad("idempotency keys %q; allowed: %s, %s, %s", c.Keys, NoKeys, UniqueKeys, PairedKeys)
	case len(c.Strategies) == 0:
		return bad("no strategy")
	case len(c.Conditions) == 0:
		return bad("no condition")
	case c.TTL < 10*time.Millisecond || c.TTL > maxDuration:
		return bad("a ttl of %v; allowed: 10ms to %v", c.TTL, maxDuration)
	case c.Wait < time.Millisecond || c.Wait > maxDuration:
		return bad("a wait of %v; allowed: 1ms to %v", c.Wait, maxDuration)
	case c.Work < 0 || c.Work > time.Minute:
		return bad("work of %v; allowed: 0 to 1m", c.Work)
	}
	if err := c.checkTargets(); err != nil {
		return err
	}
	if err := c.checkConditions(); err != nil {
		return err
	}
	for _, name := range c.Strategies {
		s, err := c.Catalog.Find(name)
		if err != nil {
			return err
		}
		if c.Workload == locks.Cache && s.Optimistic() {
			return bad("strategy %s has no lock, and so nothing to do with workload %s", name, c.Workload)
		}
	}
	return c.checkFiles()
}

func (c Config) checkTargets() error {
	for i, target := range c.Targets {
		u, err := url.Parse(target)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || target != u.Scheme+"://"+u.Host {
			return fmt.Errorf("%w: target %d, %s, is neither http://HOST:PORT nor https://HOST:PORT", ErrConfig, i+1, quoted(u))
		}
	}
	return nil
}

// quoted shows an address without its password. What cannot be read as one may
// hold a password anywhere, and is not shown.
func quoted(u *url.URL) string {
	if u == nil {
		return "which is no address"
	}
	return strconv.Quote(u.Redacted())
}

func (c Config) checkConditions() error {
	for _, condition := range c.Conditions {
		if len(c.Targets) > 0 && condition != locks.Calm {
			return fmt.Errorf("%w: condition %s needs shops that the bench starts itself; with -target only %s is allowed", ErrConfig, condition, locks.Calm)
		}
		if condition.NeedsProcess() && c.Instances < 2 {
			return fmt.Errorf("%w: condition %s is done to a whole process, and needs another that goes on: at least 2 instances", ErrConfig, condition)
		}
	}
	return nil
}

// checkFiles tells before the first row whether all requests can have their
// connection.
func (c Config) checkFiles() error {
	need := uint64(c.Requests + c.shops()*filesPerShop + filesForSelf)
	if limit, ok := openFilesLimit(); ok && limit < need {
		return fmt.Errorf("%w: %d requests at once need %d open files, and the limit is %d; raise it with `ulimit -n %d`, or ask for fewer -requests",
			ErrConfig, c.Requests, need, limit, need)
	}
	return nil
}

// DefaultStrategies returns all that have to do with the workload.
func DefaultStrategies(catalog locks.Catalog, w locks.Workload) []string {
	var names []string
	for _, s := range catalog {
		if w != locks.Cache || !s.Optimistic() {
			names = append(names, s.Name)
		}
	}
	return names
}
