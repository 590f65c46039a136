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

// guard makes the guard, and has it retry by recursion if the options say so.
func (s Strategy) guard(o Options) guard.Guard {
	g := s.Guard(o)
	if r, ok := o.Policy.(guard.Recursive); ok {
		if d, ok := g.(*guard.Distributed); ok && d.Policy != nil {
			return r.Around(d)
		}
	}
	return g
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
