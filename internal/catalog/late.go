package catalog

import (
	"context"
	"sync"
	"time"

	"oversell/internal/guard"
)

// Later returns the options with what they lacked. It is called for every section, so it
// must keep what it has opened. If ctx ends it returns the cause.
type Later func(ctx context.Context, o Options) (Options, error)

// NewGuard makes the guard of a Guarded strategy. If the options meet its need by Later, the
// guard calls that when it is first used.
func (s Strategy) NewGuard(o Options) guard.Guard {
	if later := o.Later[s.Needs]; later != nil {
		return &lateGuard{options: o, later: later, make: s.guard}
	}
	return s.guard(o)
}

func (s Strategy) guard(o Options) guard.Guard {
	if s.OwnWait {
		o.Policy = nil
	}
	g := s.Guard(o)
	if d, ok := g.(*guard.Distributed); ok {
		return guard.WithPolicy(d)
	}
	return g
}

// Distributed makes the guard of a Guarded strategy with a lock, for code that uses the
// lock by itself. It panics if the strategy has none.
func (s Strategy) Distributed(o Options) *guard.Distributed {
	return s.Guard(o).(*guard.Distributed)
}

// lateGuard makes its guard when it is first used.
type lateGuard struct {
	options Options
	later   Later
	make    func(Options) guard.Guard

	once  sync.Once
	guard guard.Guard
}

// Do calls later each time, because what it opened may have failed since.
func (g *lateGuard) Do(ctx context.Context, e guard.Entry, section func(context.Context) error) (guard.Stats, error) {
	start := time.Now()
	o, err := g.later(ctx, g.options)
	waited := time.Since(start)
	if err != nil {
		return guard.Stats{Waited: waited}, err
	}
	g.once.Do(func() { g.guard = g.make(o) })
	stats, err := g.guard.Do(ctx, e, section)
	stats.Waited += waited
	return stats, err
}
