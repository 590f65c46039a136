package catalog

import (
	"oversell/internal/guard"
	"oversell/internal/stock"
)

// Sell sets the strategies of cfg to those that o can make. The caller has set cfg.Redis,
// cfg.DB and cfg.Unfenced.
func (c List) Sell(cfg *stock.Config, o Options) {
	cfg.Guards, cfg.Scripts, cfg.Keepers = make(map[string]stock.Guard), make(map[string]*stock.ScriptSeller), make(map[string]stock.Backend)
	cfg.Families = make(map[string]string)
	backends := stock.Backends{Redis: cfg.Redis, DB: cfg.DB, Unfenced: cfg.Unfenced}
	connections := stock.HalfOfPool(cfg.DB)
	for _, s := range c.With(o) {
		backends.Strategy = s.Name
		if s.InDatabase() {
			cfg.Keepers[s.Name] = stock.InDatabase
		} else if s.InRedis() {
			cfg.Keepers[s.Name] = stock.InRedis
		}
		cfg.Families[s.Name] = s.family()
		switch s.Kind {
		case Guarded:
			cfg.Guards[s.Name] = stock.Exclusive(backends, s.NewGuard(o))
		case Optimistic:
			cfg.Guards[s.Name] = stock.Optimistic(cfg.Redis)
		case Atomic:
			cfg.Scripts[s.Name] = stock.Atomic(cfg.Redis, 0)
		case Batched:
			cfg.Scripts[s.Name] = stock.Batched(cfg.Redis, 0)
		case Streamed:
			cfg.Scripts[s.Name] = stock.Streamed(cfg.Redis, o.Stream)
		case Conditional:
			cfg.Guards[s.Name] = stock.Conditional(cfg.DB)
		case Versioned:
			cfg.Guards[s.Name] = stock.Versioned(cfg.DB)
		case RowLocked:
			cfg.Guards[s.Name] = stock.RowLocked(cfg.DB, connections)
		case NameLocked:
			cfg.Guards[s.Name] = stock.NameLocked(cfg.DB, connections)
		case Pooled:
			cfg.Guards[s.Name] = stock.Units(cfg.DB, stock.UnitsInPool)
		}
	}
}

// Guards returns, by name, the guards of the strategies that can guard the load of a cached
// value and whose needs o meets.
func (c List) Guards(o Options) map[string]guard.Guard {
	guards := make(map[string]guard.Guard)
	for _, s := range c.With(o) {
		if s.GuardsLoads() {
			guards[s.Name] = s.NewGuard(o)
		}
	}
	return guards
}

// family returns the name of the strategies that can be mixed with this one. Two different
// locks do not exclude each other, but strategies that check and write in one step can be
// mixed.
func (s Strategy) family() string {
	switch s.Kind {
	case Optimistic, Atomic, Batched:
		return "watch and lua"
	case Streamed:
		return stock.StreamFamily // its orders are written later: a change of family writes them first
	case Conditional, Versioned, RowLocked:
		return "sql"
	}
	return s.Name
}
