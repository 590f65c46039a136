package catalog

import (
	"context"
	"slices"
	"sync"
	"time"

	"oversell/internal/guard"
	"oversell/internal/stock"
)

// Sell sets the strategies of cfg to those that can be made with o. The caller must have set
// o.Redis and cfg.DB.
func (c List) Sell(cfg *stock.Config, o Options) {
	cfg.Strategies = make(map[string]stock.Strategy)
	clients := stock.Clients{Redis: o.Redis, DB: cfg.DB, Unfenced: o.Unfenced}
	connections := stock.HalfOfPool(cfg.DB)
	for _, s := range c.With(o) {
		clients.Strategy = s.Name
		sells := stock.Strategy{Family: s.family()}
		if keepers := s.Keepers(); len(keepers) == 1 {
			sells.Keeper = keepers[0]
		}
		switch s.Kind {
		case Guarded:
			sells.Guard = stock.Exclusive(clients, s.NewGuard(o))
		case Optimistic:
			sells.Guard = stock.Optimistic(o.Redis)
		case Atomic:
			sells.Script = stock.Atomic(o.Redis)
		case Batched:
			sells.Script = stock.Batched(o.Redis)
		case Streamed:
			sells.Script = stock.Streamed(o.Redis, o.Stream)
		case Conditional:
			sells.Guard = stock.Conditional(cfg.DB)
		case Versioned:
			sells.Guard = stock.Versioned(cfg.DB)
		case RowLocked:
			sells.Guard = stock.RowLocked(cfg.DB, connections)
		case NameLocked:
			sells.Guard = stock.NameLocked(cfg.DB, connections)
		case Pooled:
			sells.Guard = stock.Units(cfg.DB, stock.UnitsInPool)
		}
		cfg.Strategies[s.Name] = sells
	}
}

// Guards returns the guards, by name, of all strategies that can guard the load of a cached value
// and whose needs o meets.
func (c List) Guards(o Options) map[string]guard.Guard {
	guards := make(map[string]guard.Guard)
	for _, s := range c.With(o) {
		if s.GuardsLoads() {
			guards[s.Name] = s.NewGuard(o)
		}
	}
	return guards
}

// family returns a name that is the same for all strategies that can be mixed with this one. Two
// different locks do not exclude each other, but strategies that check and write in one step can be
// mixed.
func (s Strategy) family() string {
	switch s.Kind {
	case Optimistic, Atomic, Batched:
		return "watch and lua"
	case Streamed:
		return stock.StreamFamily // its orders are written later, but before the family changes
	case Conditional, Versioned, RowLocked:
		return "sql"
	}
	return s.Name
}

// NewGuard returns the guard of a Guarded strategy.
func (s Strategy) NewGuard(o Options) guard.Guard {
	if s.OwnWait {
		o.Policy = nil
	}
	return s.Guard(o)
}

// Distributed returns the guard of a Guarded strategy with a lock in Redis, for code that uses only
// the lock. It panics if the strategy has no such lock.
func (s Strategy) Distributed(o Options) *guard.Distributed {
	return s.Guard(o).(*guard.Distributed)
}

// Connect connects to the servers of a lock, and returns a function that makes the lock. It is called
// for every section, so it must keep the connections that it has opened. If ctx ends, it returns the
// cause.
type Connect func(ctx context.Context) (lock func(key string) guard.Lock, err error)

// remote is a guard with a lock on servers to which it connects when it is first used.
type remote struct {
	connect     Connect
	connected   sync.Once
	distributed *guard.Distributed // has no New before the first use
}

// Do calls connect each time, because the connections may have failed since.
func (g *remote) Do(ctx context.Context, e guard.Entry, section func(context.Context) error) (guard.Stats, error) {
	start := time.Now()
	lock, err := g.connect(ctx)
	waited := time.Since(start)
	if err != nil {
		return guard.Stats{Waited: waited}, err
	}
	g.connected.Do(func() { g.distributed.New = lock })
	stats, err := g.distributed.Do(ctx, e, section)
	stats.Waited += waited
	return stats, err
}

// Need names what a strategy needs besides one Redis and a database.
type Need string

// The needs.
const (
	NeedsNothing   Need = ""
	NeedsNodes     Need = "redlock"     // independent Redis servers: Options.Locks
	NeedsEtcd      Need = "etcd"        // Options.Locks
	NeedsZooKeeper Need = "zookeeper"   // Options.Locks
	NeedsRueidis   Need = "rueidislock" // Options.Rueidislock
)

// OfServers reports whether the need is for servers besides the one Redis and the database.
func (n Need) OfServers() bool {
	return n == NeedsNodes || n == NeedsEtcd || n == NeedsZooKeeper
}

// Meets reports whether the options meet a need.
func (o Options) Meets(n Need) bool {
	if n == NeedsRueidis {
		return o.Rueidislock != nil
	}
	return !n.OfServers() || o.Locks[n] != nil
}

// With returns the strategies whose needs the options meet.
func (c List) With(o Options) List {
	return slices.DeleteFunc(slices.Clone(c), func(s Strategy) bool { return !o.Meets(s.Needs) })
}

// Needs returns the needs of the strategies with these names, each once. It ignores names
// that are not in the catalog.
func (c List) Needs(names []string) []Need {
	var needs []Need
	for _, s := range c {
		if s.Needs != NeedsNothing && slices.Contains(names, s.Name) && !slices.Contains(needs, s.Needs) {
			needs = append(needs, s.Needs)
		}
	}
	return needs
}
