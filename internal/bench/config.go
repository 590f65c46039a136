// Package bench fires thousands of concurrent requests at shops under each
// strategy and each condition, and reports what came out: what was oversold
// above all. The shops are processes of their own, so that one of them can be
// killed or stopped while it holds the lock.
package bench

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"oversell/internal/backend/lockservers"
	"oversell/internal/bench/chaos"
	"oversell/internal/locks"
	"oversell/internal/stock"
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

// Config says what to run. Its zero durations, its zero Repeat and its empty ID
// stand for the defaults.
type Config struct {
	Requests   int
	Stock      int64
	Workload   locks.Workload
	Strategies []string
	Conditions []locks.Condition
	Instances  int
	Keys       Keys
	SecondLook bool         // cache: readers look again under the lock
	Keeper     stock.Keeper // of the stock; "": Redis, or the database where a strategy needs it there
	Unfenced   bool         // the stock does not look at fencing tokens
	Repeat     int          // runs of each row; default 1
	ID         string       // unique among benches; default a random one

	// Rate makes an open load of it: so many requests a second for Duration, of
	// which at most InFlight are under way at once. Requests is their number
	// then, whatever was asked for.
	Rate     int
	Duration time.Duration // default 10 s
	InFlight int           // default 1,000

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
	Servers  lockservers.Addresses // that some strategies need

	// Chaos is the Redis at RedisURL and the database at DBURL, if faults can be done to
	// them. Seed is what the faults of the first run of each row are drawn by, and the
	// next run has the next one; Faults are those to draw from, where these are not all.
	Chaos  *chaos.Servers
	Seed   uint64
	Faults []chaos.Kind

	// Failovers is the Redis at RedisURL, if it can be made to fail over. It is to be
	// thrown away after a bench that was interrupted: it may have no primary then, and
	// it keeps what was written to it.
	Failovers Failovers

	Catalog locks.Catalog

	slack time.Duration // by how much later than its end a row's lease may be ended
}

// What a Config that does not say otherwise stands for.
const (
	DefaultTTL      = time.Second
	DefaultDuration = 10 * time.Second // of an open load
	DefaultInFlight = 1000             // of an open load
)

// Bounds of what can be asked for.
const (
	MaxRequests  = 100_000
	MaxRate      = 100_000
	MinDuration  = time.Second
	MaxDuration  = time.Hour
	MaxInFlight  = 20_000
	MaxInstances = 64
	MaxRepeat    = 100
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

// WithDefaults returns the config with what is zero filled in, and its targets
// without a slash at the end.
func (c Config) WithDefaults() Config {
	targets := c.Targets
	c.Targets = nil
	for _, target := range targets {
		c.Targets = append(c.Targets, strings.TrimSuffix(target, "/"))
	}
	if c.chaotic() {
		c = c.defaultsForChaos()
	}
	c.Repeat = cmp.Or(c.Repeat, 1)
	c.TTL = cmp.Or(c.TTL, DefaultTTL)
	if c.Rate > 0 {
		c.Duration = cmp.Or(c.Duration, DefaultDuration)
		c.InFlight = cmp.Or(c.InFlight, DefaultInFlight)
		c.Requests = int(c.Duration * time.Duration(c.Rate) / time.Second)
	}
	c.Wait = cmp.Or(c.Wait, c.defaultWait())
	if c.ID == "" {
		c.ID = uuid.NewString()[:8]
	}
	return c
}

// defaultWait is long enough for every holder that has work to do to have its
// turn, one after the other, under each of the conditions.
func (c Config) defaultWait() time.Duration {
	if c.chaotic() {
		return minimumWait // as in a shop: buyers try again
	}
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
	if err := c.checkOpen(); err != nil {
		return err
	}
	switch {
	case c.Rate == 0 && (c.Requests < 1 || c.Requests > MaxRequests):
		return bad("%s; allowed: 1 to %d", plural(c.Requests, "request"), MaxRequests)
	case c.Stock < 1 || c.Stock > maxStock:
		return bad("a stock of %d; allowed: 1 to %d", c.Stock, maxStock)
	case c.Instances < 1 || c.Instances > MaxInstances:
		return bad("%s; allowed: 1 to %d", plural(c.Instances, "instance"), MaxInstances)
	case c.shops() > c.Requests:
		return bad("%s for %s: each needs at least one", plural(c.shops(), "shop"), plural(c.Requests, "request"))
	case c.Repeat < 1 || c.Repeat > MaxRepeat:
		return bad("%d runs of each row; allowed: 1 to %d", c.Repeat, MaxRepeat)
	case !slices.Contains([]Keys{NoKeys, UniqueKeys, PairedKeys}, c.Keys):
		return bad("idempotency keys %q; allowed: %s, %s, %s", c.Keys, NoKeys, UniqueKeys, PairedKeys)
	case c.Keeper != "" && c.Keeper != stock.InRedis && c.Keeper != stock.InDatabase:
		return bad("stock kept in %q; allowed: %s, %s", c.Keeper, stock.InRedis, stock.InDatabase)
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
	if name, twice := repeated(c.Strategies); twice {
		return bad("strategy %s is named twice", name)
	}
	if condition, twice := repeated(c.Conditions); twice {
		return bad("condition %s is named twice", condition)
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
		if err := c.checkStrategy(s); err != nil {
			return err
		}
	}
	return c.checkFiles()
}

// repeated returns the first that is in the list before.
func repeated[T comparable](list []T) (again T, found bool) {
	for i, one := range list {
		if slices.Contains(list[:i], one) {
			return one, true
		}
	}
	return again, false
}

// checkStrategy tells what the strategy cannot do of what it would have to. Of
// the database that it would be done with only the URL is known.
func (c Config) checkStrategy(s locks.Strategy) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: strategy %s "+format, append([]any{ErrConfig, s.Name}, args...)...)
	}
	switch {
	case c.Workload == locks.Cache && !s.GuardsLoads():
		return bad("has no lock, and so nothing to do with workload %s", c.Workload)
	case c.Keeper == stock.InDatabase && s.InRedis():
		return bad("takes from Redis, and -keeper is %s", c.Keeper)
	case c.Keeper == stock.InRedis && s.InDatabase():
		return bad("takes from the database, and -keeper is %s", c.Keeper)
	case s.Needs == locks.NeedsReplicas && len(c.Targets) == 0 && (c.Failovers == nil || !slices.Contains(c.Conditions, locks.Failover)):
		return bad("takes a Redis with two replicas, which the bench starts for one condition alone: -redis local -conditions %s", locks.Failover)
	case s.NeedsMySQL() && strings.HasPrefix(c.DBURL, "sqlite:"):
		return bad("takes MySQL or MariaDB: -db local, or one of yours")
	}
	return nil
}

// keeper is who keeps the stock while the strategy sells it. What is to show what
// a failover does to a lock must not lose the stock by it.
func (c Config) keeper(s locks.Strategy, condition locks.Condition) stock.Keeper {
	switch {
	case s.InDatabase(), c.Keeper == "" && condition == locks.Failover && !s.InRedis():
		return stock.InDatabase
	}
	return cmp.Or(c.Keeper, stock.InRedis)
}

// checkOpen checks what is asked of an open load.
func (c Config) checkOpen() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	switch {
	case c.Rate < 0 || c.Rate > MaxRate:
		return bad("a rate of %d a second; allowed: 1 to %d", c.Rate, MaxRate)
	case c.Rate == 0 && c.Duration != 0:
		return bad("a duration of %v without a rate", c.Duration)
	case c.Rate == 0 && c.InFlight != 0:
		return bad("a limit of %d requests in flight without a rate", c.InFlight)
	case c.Rate == 0:
		return nil
	case c.Workload != locks.Deduct:
		return bad("a rate with workload %s; it goes with %s", c.Workload, locks.Deduct)
	case c.Duration < MinDuration || c.Duration > MaxDuration:
		return bad("a duration of %v; allowed: %v to %v", c.Duration, MinDuration, MaxDuration)
	case c.InFlight < 1 || c.InFlight > MaxInFlight:
		return bad("%d requests in flight; allowed: 1 to %d", c.InFlight, MaxInFlight)
	}
	return nil
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
		if condition == locks.Failover && c.Failovers == nil {
			return fmt.Errorf("%w: condition %s needs a Redis with a replica that the bench starts itself: -redis local", ErrConfig, condition)
		}
		if of := c.forCondition(condition).WithDefaults(); condition == locks.Failover && of.Duration < leastFailover {
			return fmt.Errorf("%w: a duration of %v; condition %s takes at least %v in which buyers come", ErrConfig, of.Duration, condition, leastFailover)
		}
		if condition == locks.Failover && c.Workload != locks.Deduct {
			return fmt.Errorf("%w: condition %s goes with workload %s", ErrConfig, condition, locks.Deduct)
		}
		if condition == locks.Chaos {
			if err := c.checkChaos(); err != nil {
				return err
			}
		}
		if condition == locks.Partition {
			if err := c.checkPartition(); err != nil {
				return err
			}
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
	connections, what, less := c.Requests, "requests at once", "-requests"
	if c.Rate > 0 {
		connections, what, less = 2*c.InFlight, "connections", "-in-flight" // of which half may be kept and not in use
	}
	perShop := filesPerShop
	if slices.Contains(c.Conditions, locks.Partition) || c.chaotic() {
		perShop *= 3 // each connection goes through a relay, which has two ends
	}
	need := uint64(connections + c.shops()*perShop + filesForSelf)
	if limit, ok := openFilesLimit(); ok && limit < need {
		return fmt.Errorf("%w: %d %s need %d open files, and the limit is %d; raise it with `ulimit -n %d`, or ask for fewer %s",
			ErrConfig, connections, what, need, limit, need, less)
	}
	return nil
}

// DefaultStrategies returns those that have to do with the workload, without the
// extra ones.
func DefaultStrategies(catalog locks.Catalog, w locks.Workload) []string {
	var names []string
	for _, s := range catalog {
		if !s.Extra && (w != locks.Cache || s.GuardsLoads()) {
			names = append(names, s.Name)
		}
	}
	return names
}

// AllStrategies returns all that c could be run with.
func (c Config) AllStrategies() []string {
	var names []string
	for _, s := range c.Catalog {
		unsure := s.Needs == locks.NeedsReplicas && len(c.Targets) > 0 // only the shops know
		if c.checkStrategy(s) == nil && !unsure {
			names = append(names, s.Name)
		}
	}
	return names
}
