// Package bench sends thousands of concurrent requests to shops under each strategy and
// condition, and reports the results: above all, what was oversold. Each shop is a
// separate process, so that one can be killed or stopped while it holds the lock.
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

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/present"
	"oversell/internal/shop"
	"oversell/internal/stock"
)

// ErrConfig is wrapped by the errors for a Config that cannot be run.
var ErrConfig = errors.New("cannot be run")

// Invalid returns an error that wraps ErrConfig.
func Invalid(format string, args ...any) error {
	return message.Errorf("%w: %w", ErrConfig, message.Errorf(format, args...))
}

// Within returns an error that wraps ErrConfig unless v is allowed. In the error, said names v and
// its value: it is a string or a message.
func Within[T cmp.Ordered](said any, v, least, most T) error {
	if least <= v && v <= most {
		return nil
	}
	return Invalid("%s; allowed: %v to %v", said, least, most)
}

// Keys says which requests share an idempotency key.
type Keys string

// The kinds of Keys.
const (
	NoKeys     Keys = "none"   // no request has a key
	UniqueKeys Keys = "unique" // each request has its own key
	PairedKeys Keys = "pairs"  // two requests share a key, like a double click
)

// Config says what to run. A duration or Repeat of zero and an empty ID mean the default.
type Config struct {
	Requests   int
	Stock      int64
	Workload   catalog.Workload
	Strategies []string
	Conditions []catalog.Condition
	Instances  int
	Keys       Keys
	SecondLook bool          // in the cache workload, readers check the cache again under the lock
	Keeper     stock.Backend // of the stock; "": Redis, or the database if the strategy needs the stock there
	Unfenced   bool          // the stock does not check fencing tokens
	Replicas   int           // number of Redis replicas that must have an accepted order: see stock.Stream
	Repeat     int           // runs of each row; default 1
	Seams      []fleet.Seam  // where the crash condition kills processes, all in one row; default: in a holder's work
	ID         string        // unique among benches; default random

	// Items is the number of items on sale; default 1. They share Stock equally. Each buyer wants
	// one of them, drawn with Seed and Skew.
	Items int
	Skew  Skew

	// Rate makes the load open: it sends Rate requests per second for Duration, at most InFlight of
	// them at once. Requests is then set to their number. If Rate is 0, InFlight is the number of
	// connections, over which the requests are sent one after the other; 0 means one connection for
	// each request. The default for several Items is 2,000, or fewer if the open-file limit does
	// not allow that.
	Rate     int
	Duration time.Duration // default 10 s
	InFlight int           // default 1,000 at a Rate

	TTL    time.Duration // lease of a lock; default 1 s, or 6 s with several Items
	Work   time.Duration // how long a holder works
	Wait   time.Duration // longest wait for a lock; default: long enough for the turn of every holder
	Policy guard.Policy  // how to wait for a lock

	// Targets are the addresses of running shops. If there are none, the bench starts Instances
	// shops with Command, which must run Serve, on the backends at RedisURL and DBURL.
	Targets  []string
	Token    string // of the shops at Targets
	Command  func() (*exec.Cmd, error)
	RedisURL string
	DBURL    string
	Servers  lockservers.Addresses // of other servers that strategies need

	// Chaos is the Redis at RedisURL and the database at DBURL, if faults can be injected into
	// them. Seed draws the faults of the first run of each row; each further run uses the next
	// seed. Faults are the kinds to draw from; default all.
	Chaos  *ChaosServers
	Seed   uint64
	Faults []ChaosKind

	// Failovers is the Redis at RedisURL, if it can fail over. Do not use it again after
	// an interrupted bench: it may have no primary, and it keeps what was written to it.
	Failovers Failovers

	// embedded says that the Redis at RedisURL is an embedded one. A third-party lock gets no
	// verdict on it, because an embedded Redis may serve waiters differently from a real server.
	embedded bool

	slack time.Duration // how long after its expiry a lease may still be held
}

// Defaults of a Config.
const (
	DefaultTTL      = time.Second
	ItemsTTL        = 6 * time.Second  // default TTL with several items; see defaultTTL
	DefaultDuration = 10 * time.Second // of an open load
	DefaultInFlight = 1000             // of an open load
	ItemsInFlight   = 2000             // of a burst for several items; see WithDefaults
)

// Bounds of a Config.
const (
	MaxRequests  = 100_000
	MaxRate      = 100_000
	MinDuration  = time.Second
	MaxDuration  = time.Hour
	MaxInFlight  = 20_000
	MaxInstances = 64
	MaxRepeat    = 100
	maxStock     = 1_000_000
	maxReplicas  = 16
	minTTL       = 10 * time.Millisecond
)

const (
	minimumWait = 10 * time.Second
	perTurn     = 10 * time.Millisecond // for the turn of one holder, besides its work
	perBuyer    = 2 * time.Millisecond  // for each buyer of many items, even if it gets no turn

	// filesPerShop is the number of open files that a shop's connections to an embedded Redis take
	// in the bench's process, with a reserve; filesForSelf is the number for the bench itself. Each
	// request takes one more.
	filesPerShop = 150
	filesForSelf = 200
)

// WithDefaults returns the config with its defaults filled in, and its targets without a
// trailing slash.
func (c Config) WithDefaults() Config {
	targets := c.Targets
	c.Targets = nil
	for _, target := range targets {
		c.Targets = append(c.Targets, strings.TrimSuffix(target, "/"))
	}
	c.Repeat = cmp.Or(c.Repeat, 1)
	c.ID = cmp.Or(c.ID, NewID())
	if c.Workload == catalog.Hold {
		return c.defaultsForHolds()
	}
	if c.chaotic() {
		c = c.defaultsForChaos()
	}
	c.Items = cmp.Or(c.Items, 1)
	c.TTL = cmp.Or(c.TTL, c.defaultTTL())
	if c.Rate > 0 {
		c.Duration = cmp.Or(c.Duration, DefaultDuration)
		c.InFlight = cmp.Or(c.InFlight, DefaultInFlight)
		c.Requests = int(c.Duration * time.Duration(c.Rate) / time.Second)
	}
	if n := min(ItemsInFlight, c.room()); c.many() && c.Rate == 0 && c.InFlight == 0 && n < c.Requests {
		// When one item is sold out its buyers leave, but with a thousand items most buyers stay,
		// and the shops serve all of them. With 18,000 connections on 2 cores the shops and Redis
		// stalled for seconds, so that leases expired, and every row was run again.
		c.InFlight = n
	}
	c.Wait = cmp.Or(c.Wait, c.defaultWait())
	return c
}

// NewID returns an ID for a Config.
func NewID() string { return uuid.NewString()[:8] }

// forRow returns the config of a row, with the defaults for its condition and the lease that the
// servers of its strategy grant.
func (c Config) forRow(of Case, t lockservers.Terms) Config {
	c.TTL = cmp.Or(of.TTL, c.TTL)
	c = c.forCondition(of.Condition)
	c.TTL, c.slack = t.Lease(cmp.Or(c.TTL, c.defaultTTL())), t.Slack
	c = c.WithDefaults()
	if c.chaotic() {
		c.Seed += uint64(of.Repeat - 1)
	}
	return c
}

// defaultWait returns a wait that is long enough for the turn of every holder that has work to do,
// under any condition.
func (c Config) defaultWait() time.Duration {
	if c.chaotic() {
		return minimumWait // as in a shop: buyers retry
	}
	turns := c.turns()
	if c.Workload == catalog.Cache && !c.SecondLook {
		turns = int64(c.Requests)
	}
	var delay time.Duration
	for _, condition := range c.Conditions {
		delay = max(delay, time.Duration(c.shops())*c.delay(condition))
	}
	wait := max(minimumWait, time.Duration(turns)*(c.Work+perTurn)) + delay
	if c.many() { // hundreds of items at once keep the shops busy until the last buyer is refused
		wait += time.Duration(c.Requests) * perBuyer
	}
	return wait
}

// turns returns the number of holders that have work to do if the guard holds. A cold key is loaded
// only once.
func (c Config) turns() int64 {
	if c.Workload == catalog.Cache {
		return 1
	}
	return min(c.Stock, int64(c.Requests))
}

// running reports whether the shops were running already. The bench only sends them requests.
func (c Config) running() bool { return len(c.Targets) > 0 }

// shops returns the number of shops that the bench starts, or of the targets.
func (c Config) shops() int {
	if c.running() {
		return len(c.Targets)
	}
	return c.Instances
}

// Check returns an error that wraps ErrConfig, or catalog.ErrName for a strategy
// that is not in the catalog, if the config cannot be run.
func (c Config) Check() error {
	if c.Workload == catalog.Hold {
		return c.checkHolds()
	}
	err := cmp.Or(
		c.checkOpen(),
		Within(fmt.Sprint("a stock of ", c.Stock), c.Stock, 1, maxStock),
		Within(present.Plural(c.Instances, "instance"), c.Instances, 1, MaxInstances),
		Within(fmt.Sprint(present.Plural(c.Replicas, "replica"), " of an accepted order"), c.Replicas, 0, maxReplicas),
		Within(fmt.Sprint("a ttl of ", c.TTL), c.TTL, minTTL, MaxDuration),
		Within(fmt.Sprint("a wait of ", c.Wait), c.Wait, time.Millisecond, MaxDuration),
		Within(fmt.Sprint("work of ", c.Work), c.Work, 0, time.Minute),
	)
	switch {
	case err != nil:
		return err
	case c.shops() > c.Requests:
		return Invalid("%s for %s: each needs at least one", present.Plural(c.shops(), "shop"),
			present.Plural(c.Requests, "request"))
	case !slices.Contains([]Keys{NoKeys, UniqueKeys, PairedKeys}, c.Keys):
		return Invalid("idempotency keys %q; allowed: %s, %s, %s", c.Keys, NoKeys, UniqueKeys, PairedKeys)
	case c.Keeper != "" && c.Keeper != stock.InRedis && c.Keeper != stock.InDatabase:
		return Invalid("stock kept in %q; allowed: %s, %s", c.Keeper, stock.InRedis, stock.InDatabase)
	case c.Replicas > 0 && !c.running() && c.RedisURL == "" &&
		(c.Failovers == nil || !slices.Contains(c.Conditions, catalog.Failover)):
		return Invalid("replicas of accepted orders need a Redis with replicas: -redis local -conditions %s, or "+
			"your own", catalog.Failover)
	case len(c.Strategies) == 0:
		return Invalid("no strategy")
	case len(c.Conditions) == 0:
		return Invalid("no condition")
	}
	if err := cmp.Or(c.CheckRows(), c.checkTargets(), c.checkConditions()); err != nil {
		return err
	}
	for _, name := range c.Strategies {
		s, err := catalog.Strategies().Find(name)
		if err != nil {
			return err
		}
		if err := c.checkStrategy(s); err != nil {
			return err
		}
	}
	return cmp.Or(c.checkItems(), c.checkStreamSeams(), c.checkFiles())
}

// CheckRows returns an error if rows are repeated too many times, or if a strategy or condition is
// named twice.
func (c Config) CheckRows() error {
	if err := Within(fmt.Sprint(present.Plural(c.Repeat, "run"), " of each row"), c.Repeat, 1, MaxRepeat); err != nil {
		return err
	}
	if name, twice := repeated(c.Strategies); twice {
		return Invalid("strategy %s is named twice", name)
	}
	if condition, twice := repeated(c.Conditions); twice {
		return Invalid("condition %s is named twice", condition)
	}
	return nil
}

// repeated returns the first element that is in the list twice.
func repeated[T comparable](list []T) (again T, found bool) {
	for i, one := range list {
		if slices.Contains(list[:i], one) {
			return one, true
		}
	}
	return again, false
}

// checkStrategy returns an error if the strategy cannot be run with the config. The database is not
// started yet; only its URL is known.
func (c Config) checkStrategy(s catalog.Strategy) error {
	switch {
	case c.Workload == catalog.Cache && !s.GuardsLoads():
		return Invalid("strategy %s has no lock, which workload %s needs", s.Name, c.Workload)
	case c.Keeper == stock.InDatabase && s.InRedis():
		return Invalid("strategy %s needs its stock in Redis, and -keeper is %s", s.Name, c.Keeper)
	case c.Keeper == stock.InRedis && s.InDatabase():
		return Invalid("strategy %s needs its stock in the database, and -keeper is %s", s.Name, c.Keeper)
	case s.NeedsMySQL() && strings.HasPrefix(c.DBURL, "sqlite:"):
		return Invalid("strategy %s needs MySQL or MariaDB: -db local, or your own", s.Name)
	}
	return nil
}

// keeper returns the backend of the stock. Under failover it is the database: the row should show
// what a failover does to a lock, so the stock must not be lost as well.
func (c Config) keeper(s catalog.Strategy, condition catalog.Condition) stock.Backend {
	if s.InDatabase() || c.Keeper == "" && condition == catalog.Failover && !s.InRedis() {
		return stock.InDatabase
	}
	return cmp.Or(c.Keeper, stock.InRedis)
}

// checkOpen checks the settings of an open load.
func (c Config) checkOpen() error {
	inFlight := fmt.Sprintf("%d requests in flight", c.InFlight)
	switch {
	case c.Rate == 0 && c.Duration != 0:
		return Invalid("a duration of %v without a rate", c.Duration)
	case c.Rate == 0 && c.InFlight != 0:
		return cmp.Or(c.checkRequests(), Within(inFlight, c.InFlight, 1, MaxInFlight))
	case c.Rate == 0:
		return c.checkRequests()
	case c.Workload != catalog.Deduct:
		return Invalid("a rate with workload %s; it needs %s", c.Workload, catalog.Deduct)
	}
	return cmp.Or(
		Within(fmt.Sprintf("a rate of %d a second", c.Rate), c.Rate, 1, MaxRate),
		Within(fmt.Sprint("a duration of ", c.Duration), c.Duration, MinDuration, MaxDuration),
		Within(inFlight, c.InFlight, 1, MaxInFlight),
	)
}

func (c Config) checkRequests() error {
	return Within(present.Plural(c.Requests, "request"), c.Requests, 1, MaxRequests)
}

func (c Config) checkTargets() error {
	for i, target := range c.Targets {
		u, err := url.Parse(target)
		shown := "which is not an address" // and may have a password anywhere
		if err == nil {
			shown = strconv.Quote(u.Redacted())
		}
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") ||
			target != u.Scheme+"://"+u.Host {
			return Invalid("target %d, %s, is neither http://HOST:PORT nor https://HOST:PORT", i+1, shown)
		}
	}
	return nil
}

func (c Config) checkConditions() error {
	for _, condition := range c.Conditions {
		if c.running() && condition != catalog.Calm {
			return Invalid("condition %s needs shops that the bench starts; with -target only %s is allowed", condition,
				catalog.Calm)
		}
		of := c.forCondition(condition).WithDefaults()
		if condition == catalog.Failover && of.Duration < leastFailover {
			return Invalid("a duration of %v; condition %s takes at least %v", of.Duration, condition, leastFailover)
		}
		if (condition == catalog.Failover || condition == catalog.Partition) && c.Workload != catalog.Deduct {
			return Invalid("condition %s needs workload %s", condition, catalog.Deduct)
		}
		if condition == catalog.Chaos {
			if err := c.checkChaos(); err != nil {
				return err
			}
		}
		if long := c.long(); condition == catalog.Partition && c.Wait < long {
			return Invalid("a wait of %v; condition %s makes buyers wait for %v with a ttl of %v",
				c.Wait, condition, long, c.TTL)
		}
		if condition.NeedsProcess() && c.Instances < 2 {
			return Invalid("condition %s affects a whole process, and another must keep running: it needs at least "+
				"2 instances",
				condition)
		}
	}
	return c.checkRedis()
}

// checkRedis returns an error for conditions that cannot be run on the Redis.
func (c Config) checkRedis() error {
	partition := slices.Contains(c.Conditions, catalog.Partition)
	failover := slices.Contains(c.Conditions, catalog.Failover)
	switch {
	case failover && c.Failovers == nil:
		return Invalid("condition %s needs a Redis with replicas that the bench starts: -redis local", catalog.Failover)
	case failover && partition:
		return Invalid("conditions %s and %s in one run: one needs a single Redis, the other a sentinel set",
			catalog.Partition, catalog.Failover)
	case !partition || c.RedisURL == "": // Redis is not started yet
		return nil
	}
	_, err := backend.SingleAddr(c.RedisURL) // its errors do not show the URL, which may have a password
	switch {
	case errors.Is(err, backend.ErrSpec):
		return Invalid("%w", err) // the condition is not the cause
	case err != nil:
		return Invalid("condition %s needs a Redis whose connections can be relayed (embedded, local or "+
			"redis://host:port): %w",
			catalog.Partition, err)
	}
	return nil
}

// checkFiles returns an error if the open-file limit does not allow a connection for each request.
func (c Config) checkFiles() error {
	c = c.ofAllRows()
	connections, what, less := c.Requests, "requests at once", "-requests, or fewer connections with -in-flight"
	if c.Rate > 0 {
		connections, what, less = 2*c.InFlight, "connections", "-in-flight" // half of them may be idle
	}
	if c.takesTurns() {
		connections, less = c.InFlight, "-in-flight"
	}
	need := connections + c.filesBeside()
	if limit := shop.OpenFiles(); limit < need {
		return Invalid("%d "+what+" need %d open files, and the limit is %d; raise it with `ulimit -n %d`, "+
			"or use fewer %s", connections, need, limit, need, message.Text(less))
	}
	return nil
}

// ofAllRows returns the config with its defaults, also those for a condition that all rows have.
func (c Config) ofAllRows() Config {
	if len(c.Conditions) == 1 {
		c = c.forCondition(c.Conditions[0])
	}
	return c.WithDefaults()
}

// filesBeside returns the number of open files besides the connections of requests.
func (c Config) filesBeside() int {
	perShop := filesPerShop
	if slices.Contains(c.Conditions, catalog.Partition) || c.chaotic() {
		perShop *= 3 // a relay takes two more for each connection
	}
	return c.shops()*perShop + filesForSelf
}

// DefaultStrategies returns the names of the strategies that apply to the workload, without the
// extra ones.
func DefaultStrategies(w catalog.Workload) []string {
	var names []string
	for _, s := range catalog.Strategies() {
		if !s.Extra && (w != catalog.Cache || s.GuardsLoads()) {
			names = append(names, s.Name)
		}
	}
	return names
}

// AllStrategies returns all strategies that c could be run with.
func (c Config) AllStrategies() []string {
	var names []string
	for _, s := range catalog.Strategies() {
		if c.checkStrategy(s) == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

// Manifest describes the settings of the rows; redis and db describe the backends.
func (c Config) Manifest(redis, db string) report.Manifest {
	if c.Workload == catalog.Deduct || c.Workload == catalog.Cache { // the other workloads already have their defaults
		c = c.ofAllRows()
	}
	m := report.NewManifest(redis, db)
	m.ID, m.Requests, m.Stock, m.Workload = c.ID, c.Requests, c.Stock, string(c.Workload)
	m.Instances, m.Targets = c.shops(), c.Targets
	m.Keys, m.SecondLook, m.Repeat = string(c.Keys), c.SecondLook, c.Repeat
	m.Keeper, m.Unfenced, m.Replicas = c.Keeper, c.Unfenced, c.Replicas
	m.Planned = len(c.Strategies) * len(c.Conditions) * c.Repeat
	if c.chaotic() {
		m.Seed = c.Seed
	}
	if c.Rate > 0 {
		m.Rate, m.Duration, m.InFlight = c.Rate, c.Duration.String(), c.InFlight
	}
	if c.many() {
		m.Items, m.Skew, m.Seed = c.Items, c.Skew.String(), c.Seed
	}
	if c.takesTurns() {
		m.InFlight = c.InFlight
	}
	if c.running() {
		return m
	}
	m.TTL = c.TTL.String()
	if c.Wait > 0 {
		m.Wait = c.Wait.String()
	}
	if c.Policy != nil {
		m.Work, m.Retry = c.Work.String(), c.Policy.String()
	}
	return m
}
