package locks

import (
	"context"
	"sync"
	"time"
)

// Later returns the options with what they lacked. It is called for every section, and so
// has to keep what it opened; its error is the answer to the caller. It gives up when ctx
// ends, and returns the cause.
type Later func(ctx context.Context, o Options) (Options, error)

// NewGuard makes the guard of a strategy that is Guarded. Where the options meet its need
// later, the guard has the need met when it is first used.
func (s Strategy) NewGuard(o Options) Guard {
	if later := o.Later[s.Needs]; later != nil {
		return &lateGuard{options: o, later: later, make: s.Guard}
	}
	return s.Guard(o)
}

// lateGuard makes its guard when it is first used.
type lateGuard struct {
	options Options
	later   Later
	make    func(Options) Guard

	once  sync.Once
	guard Guard
}

// Do asks for the options each time: what was opened may have failed since.
func (g *lateGuard) Do(ctx context.Context, e Entry, section func(context.Context) error) (Stats, error) {
	start := time.Now()
	o, err := g.later(e.Wait, g.options)
	waited := time.Since(start)
	if err != nil {
		return Stats{Waited: waited}, err
	}
	g.once.Do(func() { g.guard = g.make(o) })
	stats, err := g.guard.Do(ctx, e, section)
	stats.Waited += waited
	return stats, err
}
