package runs

import (
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/message"
	"oversell/internal/stock"
	"oversell/internal/web/problem"
)

// ErrSettings is wrapped by the errors for invalid Settings, which say what is allowed.
var ErrSettings = errors.New("invalid settings")

// Backend says which Redis and database the shops of a run use.
type Backend string

// The backends.
const (
	Embedded Backend = "embedded" // started only for the run
	Shop     Backend = "shop"     // those of the shop that shows the run
)

// Settings say what to run: each strategy under each condition.
type Settings struct {
	Strategies []string            `json:"strategies"`
	Conditions []catalog.Condition `json:"conditions"`
	Requests   int                 `json:"requests"`
	Stock      int64               `json:"stock"`
	Instances  int                 `json:"instances"`
	Keeper     stock.Backend       `json:"keeper"` // of the stock; "": see bench.Config
	Unfenced   bool                `json:"unfenced"`
	TTL        int64               `json:"ttl_ms"`  // lease of a lock, in milliseconds
	Work       int64               `json:"work_us"` // how long a holder works, in microseconds
	Backend    Backend             `json:"backend"`
}

// rows returns the number of rows.
func (s Settings) rows() int { return len(s.Strategies) * len(s.Conditions) }

// Range is a range of allowed values.
type Range struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// check returns an error unless n is in the range. what says what n is, in a name or a Message.
func (r Range) check(what any, n int64) error {
	if n < r.Min || n > r.Max {
		return message.Errorf("%w: %s is %d; allowed: %d to %d", ErrSettings, what, n, r.Min, r.Max)
	}
	return nil
}

// Limits limits the size of runs, and the number of runs that are kept.
type Limits struct {
	Requests  Range         `json:"requests"`
	Stock     Range         `json:"stock"`
	Instances Range         `json:"instances"`
	TTL       Range         `json:"ttl_ms"`
	Work      Range         `json:"work_us"`
	Rows      Range         `json:"rows"` // of one run
	Time      time.Duration `json:"-"`    // of one run, after which it is stopped
	Kept      int           `json:"kept"` // runs that are kept, including the one under way
}

// defaultLimits returns limits that suit a page that anybody can use.
func defaultLimits() Limits {
	return Limits{
		Requests: Range{1, 20_000}, Stock: Range{1, 10_000}, Instances: Range{1, 4},
		TTL: Range{100, 10_000}, Work: Range{0, 100_000}, Rows: Range{1, 40}, Time: 10 * time.Minute, Kept: 20,
	}
}

// defaultWork is the default work time of a holder, as in the bench.
const defaultWork = 400 * time.Microsecond

// policyDelay is the delay of the waiting policy line. It equals the bench's default.
const policyDelay = 2 * time.Millisecond

// conditions lists the conditions that can be chosen. Failover needs a Redis with replicas, chaos
// needs its own servers, and both need an open load.
func conditions() []catalog.Condition {
	return slices.DeleteFunc(catalog.Conditions(), func(c catalog.Condition) bool {
		return c == catalog.Failover || c == catalog.Chaos
	})
}

// Defaults returns the default settings.
func (m *Manager) Defaults() Settings {
	return Settings{
		Strategies: []string{"none", "v6_watchdog"}, Conditions: []catalog.Condition{catalog.Calm},
		Requests: int(min(2000, m.limits.Requests.Max)), Stock: 100, Instances: 2,
		TTL: bench.DefaultTTL.Milliseconds(), Work: defaultWork.Microseconds(), Backend: Embedded,
	}
}

// mostRequests returns the largest number of requests that this machine allows within the limits,
// under any conditions and with any number of instances. Each request takes an open file, and the
// shops need open files, too.
func (m *Manager) mostRequests() int64 {
	s, l := m.Defaults(), m.limits
	s.Conditions, s.Instances = conditions(), int(l.Instances.Max)
	least := max(l.Requests.Min, l.Instances.Max)
	fits := func(requests int64) bool {
		s.Requests = int(requests)
		return !errors.Is(m.config(s).WithDefaults().Check(), bench.ErrConfig)
	}
	if l.Requests.Max < least || !fits(least) { // open files are not the reason
		return l.Requests.Max
	}
	return least - 1 + int64(sort.Search(int(l.Requests.Max-least+1), func(more int) bool {
		return !fits(least + int64(more))
	}))
}

// check returns the bench's config for the settings, without the backends. Its error wraps
// ErrSettings.
func (m *Manager) check(s Settings) (bench.Config, error) {
	l := m.limits
	for _, err := range []error{
		l.Requests.check("requests", int64(s.Requests)), l.Stock.check("stock", s.Stock),
		l.Instances.check("instances", int64(s.Instances)), l.TTL.check("ttl_ms", s.TTL),
		l.Work.check("work_us", s.Work),
		l.Rows.check(message.Text("the number of rows, a strategy under a condition each,"), int64(s.rows())),
		m.checkNames(s),
	} {
		if err != nil {
			return bench.Config{}, err
		}
	}
	cfg := m.config(s)
	if err := cfg.WithDefaults().Check(); err != nil {
		return cfg, message.Errorf("%w: %w", ErrSettings, err)
	}
	return cfg, nil
}

// config returns the bench's config for the settings.
func (m *Manager) config(s Settings) bench.Config {
	cfg := bench.Config{
		Requests: s.Requests, Stock: s.Stock, Workload: catalog.Deduct,
		Strategies: s.Strategies, Conditions: s.Conditions, Instances: s.Instances,
		Keys: bench.NoKeys, SecondLook: true, Keeper: s.Keeper, Unfenced: s.Unfenced,
		TTL: time.Duration(s.TTL) * time.Millisecond, Work: time.Duration(s.Work) * time.Microsecond,
		Policy:  &guard.Line{Delay: policyDelay},
		Command: m.cfg.Command,
	}
	if s.Backend == Shop {
		cfg.RedisURL, cfg.DBURL = m.cfg.Shop.RedisURL, m.cfg.Shop.DBURL
	}
	return cfg
}

// checkNames checks the names in the settings.
func (m *Manager) checkNames(s Settings) error {
	if !slices.Contains(m.backends(), s.Backend) {
		return message.Errorf("%w: backend %q; allowed: %s", ErrSettings, s.Backend, list(m.backends()))
	}
	if !slices.Contains(append(keepers(), ""), s.Keeper) {
		return message.Errorf("%w: keeper %q; allowed: %s", ErrSettings, s.Keeper, list(keepers()))
	}
	if err := eachOnce("condition", s.Conditions, conditions()); err != nil {
		return err
	}
	offered := m.catalog(s.Backend)
	if err := eachOnce("strategy", s.Strategies, offered.Names()); err != nil {
		return err
	}
	for _, strategy := range offered {
		if slices.Contains(s.Strategies, strategy.Name) && s.Keeper != "" &&
			!slices.Contains(strategy.Keepers(), s.Keeper) {
			return message.Errorf("%w: strategy %s with keeper %s; it goes with %s",
				ErrSettings, strategy.Name, s.Keeper, list(strategy.Keepers()))
		}
	}
	return nil
}

// eachOnce returns an error unless all names are allowed and no name occurs twice.
func eachOnce[T ~string](what string, names, allowed []T) error {
	for i, name := range names {
		if !slices.Contains(allowed, name) {
			return message.Errorf("%w: %s %s; allowed: %s", ErrSettings, message.Text(what),
				problem.Quoted(string(name)), list(allowed))
		}
		if slices.Contains(names[:i], name) {
			return message.Errorf("%w: %s %s is named twice", ErrSettings, message.Text(what), name)
		}
	}
	return nil
}

// list joins names with commas.
func list[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}
