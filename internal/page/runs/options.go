package runs

import (
	"strings"

	"oversell/internal/locks"
	"oversell/internal/stock"
)

// Options are what can be chosen for a run.
type Options struct {
	Strategies []Strategy     `json:"strategies"`
	Conditions []Condition    `json:"conditions"`
	Backends   []Place        `json:"backends"`
	Keepers    []stock.Keeper `json:"keepers"`
	Limits     Limits         `json:"limits"`
	Time       int64          `json:"run_ms"` // longest time of one run
	Defaults   Settings       `json:"defaults"`
}

// Strategy is one that can be chosen.
type Strategy struct {
	Name      string         `json:"name"`
	Adds      string         `json:"adds"`
	Breaks    string         `json:"breaks"`
	Extra     bool           `json:"extra"`     // the bench runs it where it is asked for
	OwnWait   bool           `json:"own_wait"`  // callers wait in the lock's own way
	Exclusive bool           `json:"exclusive"` // one holder is to be inside at a time
	Needs     locks.Need     `json:"needs"`
	Backends  []Backend      `json:"backends"` // with which it can be had
	Keepers   []stock.Keeper `json:"keepers"`  // with which it can be had
}

// Condition is one that can be chosen.
type Condition struct {
	Name         locks.Condition `json:"name"`
	MinInstances int             `json:"min_instances"`
}

// Place is a backend that can be chosen.
type Place struct {
	Name  Backend `json:"name"`
	About string  `json:"about"`
}

// Options tells what can be chosen.
func (m *Manager) Options() Options {
	o := Options{
		Strategies: m.strategies(), Keepers: keepers(), Limits: m.cfg.Limits,
		Time: m.cfg.Limits.Time.Milliseconds(), Defaults: m.Defaults(),
	}
	for _, c := range conditions() {
		least := 1
		if c.NeedsProcess() {
			least = 2
		}
		o.Conditions = append(o.Conditions, Condition{c, least})
	}
	about := map[Backend]string{
		Embedded: "a Redis and a database in this program, for the run alone",
		Shop:     "the Redis and the database of this shop, on items of the run's own",
	}
	for _, b := range m.backends() {
		o.Backends = append(o.Backends, Place{b, about[b]})
	}
	return o
}

func (m *Manager) strategies() []Strategy {
	var all []Strategy
	for _, s := range m.cfg.Catalog {
		one := Strategy{
			Name: s.Name, Adds: s.Adds, Breaks: s.Breaks, Extra: s.Extra, OwnWait: s.OwnWait,
			Exclusive: exclusive(s), Needs: s.Needs, Keepers: keepersOf(s),
		}
		for _, b := range m.backends() {
			if m.has(b, s) {
				one.Backends = append(one.Backends, b)
			}
		}
		if len(one.Backends) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// exclusive reports whether one holder is to be inside at a time: where losers are
// turned back at the write, many may be.
func exclusive(s locks.Strategy) bool {
	return s.Kind == locks.Guarded || s.Kind == locks.RowLocked || s.Kind == locks.NameLocked
}

func keepers() []stock.Keeper { return []stock.Keeper{stock.InRedis, stock.InDatabase} }

func keepersOf(s locks.Strategy) []stock.Keeper {
	switch {
	case s.InRedis():
		return []stock.Keeper{stock.InRedis}
	case s.InDatabase():
		return []stock.Keeper{stock.InDatabase}
	}
	return keepers()
}

// backends are those that there are.
func (m *Manager) backends() []Backend {
	if m.cfg.Shop == nil {
		return []Backend{Embedded}
	}
	return []Backend{Embedded, Shop}
}

// catalog is the strategies that can be had with a backend.
func (m *Manager) catalog(b Backend) locks.Catalog {
	var offered locks.Catalog
	for _, s := range m.cfg.Catalog {
		if m.has(b, s) {
			offered = append(offered, s)
		}
	}
	return offered
}

// has reports whether a strategy can be had with a backend, which has to be one
// that there is.
func (m *Manager) has(b Backend, s locks.Strategy) bool {
	if b == Embedded {
		started := s.Needs == locks.NeedsNothing || s.Needs == locks.NeedsRueidis || s.Needs == locks.NeedsNodes || s.Needs == locks.NeedsEtcd
		return started && !s.NeedsMySQL()
	}
	if s.NeedsMySQL() && strings.HasPrefix(m.cfg.Shop.DBURL, "sqlite:") {
		return false
	}
	switch s.Needs {
	case locks.NeedsNothing, locks.NeedsRueidis:
		return true
	}
	return m.cfg.Shop.Servers.Has(s.Needs)
}
