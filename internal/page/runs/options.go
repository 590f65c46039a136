package runs

import (
	"cmp"
	"slices"
	"strings"

	"oversell/internal/backend/coordination"
	"oversell/internal/catalog"
	"oversell/internal/stock"
)

// Options lists what can be chosen for a run.
type Options struct {
	Strategies []Strategy      `json:"strategies"`
	Conditions []Condition     `json:"conditions"`
	Backends   []Location      `json:"backends"`
	Keepers    []stock.Backend `json:"keepers"`
	Limits     Limits          `json:"limits"`
	Time       int64           `json:"run_ms"` // longest time of one run
	Defaults   Settings        `json:"defaults"`
	Presets    []Preset        `json:"presets"`
}

// Strategy is a strategy that can be chosen.
type Strategy struct {
	Name      string          `json:"name"`
	Adds      string          `json:"adds"`
	Breaks    string          `json:"breaks"`
	Extra     bool            `json:"extra"`     // the bench does not run it by default
	OwnWait   bool            `json:"own_wait"`  // the lock has its own way of waiting
	Exclusive bool            `json:"exclusive"` // it promises one holder at a time
	Needs     catalog.Need    `json:"needs"`
	Backends  []Backend       `json:"backends"` // backends that it can run on
	Keepers   []stock.Backend `json:"keepers"`  // keepers that it can work with
}

// Condition is a condition that can be chosen.
type Condition struct {
	Name         catalog.Condition `json:"name"`
	MinInstances int               `json:"min_instances"`
}

// Location is a backend that can be chosen.
type Location struct {
	Name  Backend `json:"name"`
	About string  `json:"about"`
}

// Options returns what can be chosen.
func (m *Manager) Options() Options {
	o := Options{
		Strategies: m.strategies(), Keepers: keepers(), Limits: m.limits,
		Time: m.limits.Time.Milliseconds(), Defaults: m.Defaults(),
	}
	for _, c := range conditions() {
		least := 1
		if c.NeedsProcess() {
			least = 2
		}
		o.Conditions = append(o.Conditions, Condition{c, least})
	}
	o.Presets = m.presets()
	about := map[Backend]string{
		Embedded: "a Redis and a database in this program, for this run alone",
		Shop:     "the Redis and the database of this shop, with items of the run's own",
	}
	for _, b := range m.backends() {
		o.Backends = append(o.Backends, Location{b, about[b]})
	}
	return o
}

func (m *Manager) strategies() []Strategy {
	var all []Strategy
	for _, s := range catalog.Strategies() {
		one := Strategy{
			Name: s.Name, Adds: s.Adds, Breaks: s.Breaks, Extra: s.Extra, OwnWait: s.OwnWait,
			Exclusive: exclusive(s), Needs: s.Needs, Keepers: s.Keepers(),
			Backends: slices.DeleteFunc(m.backends(), func(b Backend) bool { return !m.has(b, s) }),
		}
		if len(one.Backends) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// exclusive reports whether a strategy promises one holder at a time. A strategy that only refuses
// the losers' writes (optimistic locking) lets several holders into the section at once.
func exclusive(s catalog.Strategy) bool {
	return s.Kind == catalog.Guarded || s.Kind == catalog.RowLocked || s.Kind == catalog.NameLocked
}

func keepers() []stock.Backend { return []stock.Backend{stock.InRedis, stock.InDatabase} }

func (m *Manager) backends() []Backend {
	if m.cfg.Shop == nil {
		return []Backend{Embedded}
	}
	return []Backend{Embedded, Shop}
}

// catalog returns the strategies that can run on a backend.
func (m *Manager) catalog(b Backend) catalog.List {
	return slices.DeleteFunc(catalog.Strategies(), func(s catalog.Strategy) bool { return !m.has(b, s) })
}

// has reports whether a strategy can run on a backend.
func (m *Manager) has(b Backend, s catalog.Strategy) bool {
	if b == Embedded {
		return s.Needs != catalog.NeedsZooKeeper && !s.NeedsMySQL() &&
			(s.Needs != catalog.NeedsEtcd || coordination.FindEtcd() == nil)
	}
	if s.NeedsMySQL() && strings.HasPrefix(m.cfg.Shop.DBURL, "sqlite:") {
		return false
	}
	switch s.Needs {
	case catalog.NeedsNothing, catalog.NeedsRueidis:
		return true
	}
	return m.cfg.Shop.Servers.Has(s.Needs)
}

// Preset is a run that the page offers on a card.
type Preset struct {
	Name string `json:"name"`
	Settings
}

// few is the stock of the presets in which one late write may oversell a single unit. In a chart,
// one unit too many is visible if the stock is 12, but not if it is 100.
const few = 12

// presets returns the presets that can be started. Each preset shows one way to fail, next to a
// lock that does not fail in that way. Only "unfenced" shows a single strategy: Unfenced applies to
// a whole run, so v8_fenced with the check cannot run next to v8_fenced without it. Settings that a
// preset does not set get their defaults.
func (m *Manager) presets() []Preset {
	var can []Preset
	for _, p := range []Preset{
		{"first", Settings{Strategies: []string{"none", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Calm},
			Requests: 1000, Stock: 250, Work: 10_000}},
		{"slow", Settings{Strategies: []string{"v2_ttl", "v9_cohort"}, Conditions: []catalog.Condition{catalog.Slow}}},
		{"crash", Settings{Strategies: []string{"v1_setnx", "v9_cohort"},
			Conditions: []catalog.Condition{catalog.Crash}}},
		{"pause", Settings{Strategies: []string{"v6_watchdog", "v8_fenced"},
			Conditions: []catalog.Condition{catalog.Pause}, Stock: few}},
		{"cut", Settings{Strategies: []string{"v6_watchdog", "v9_cohort"},
			Conditions: []catalog.Condition{catalog.Partition}, Stock: few}},
		{"unfenced", Settings{Strategies: []string{"v8_fenced"},
			Conditions: []catalog.Condition{catalog.Pause}, Stock: few, Unfenced: true}},
		{"big", Settings{Strategies: []string{"none", "v9_cohort", "lua_atomic"},
			Conditions: []catalog.Condition{catalog.Calm}, Requests: 5000, Stock: 1000, Work: 400}},
	} {
		d := m.Defaults()
		p.Requests, p.Stock, p.Work = cmp.Or(p.Requests, 400), cmp.Or(p.Stock, 100), cmp.Or(p.Work, 5000)
		p.Instances, p.TTL, p.Backend = max(2, d.Instances), d.TTL, d.Backend
		if _, err := m.check(p.Settings); err == nil {
			can = append(can, p)
		}
	}
	return can
}
