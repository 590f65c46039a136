package bench

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/catalog"
	"oversell/internal/fault"
	"oversell/internal/fleet"
	"oversell/internal/naming"
	"oversell/internal/stock"
	accepted "oversell/internal/stock/stream"
)

// SeamScript is the seam after the script that accepts an order: the order is in the stream, and
// the buyer has no reply yet. The other seams are those of stream.Consumer.
const SeamScript fleet.Seam = "script"

// Seams lists the seams at which the crash condition can kill a process, in the order in which an
// accepted order reaches them.
func Seams() []fleet.Seam { return []fleet.Seam{SeamScript, accepted.SeamRead, accepted.SeamWritten} }

// atSeams reports whether a condition kills processes at seams.
func (c Config) atSeams(condition catalog.Condition) bool {
	return condition == catalog.Crash && len(c.Seams) > 0 && c.Workload != catalog.Hold
}

// checkSeams returns an error for a seam that is not allowed, and for seams without the crash condition.
func (c Config) checkSeams(allowed []fleet.Seam) error {
	if len(c.Seams) > 0 && !slices.Contains(c.Conditions, catalog.Crash) {
		return Invalid("seams need condition %s, which kills processes there", catalog.Crash)
	}
	for _, seam := range c.Seams {
		if err := naming.Check("seam", string(seam), allowed); err != nil {
			return err
		}
	}
	return nil
}

// checkStreamSeams returns an error if a strategy has no seams, or a seam is named twice.
func (c Config) checkStreamSeams() error {
	if len(c.Seams) == 0 {
		return nil
	}
	if seam, twice := repeated(c.Seams); twice {
		return Invalid("seam %s is named twice", seam)
	}
	for _, name := range c.Strategies {
		if s, err := catalog.Strategies().Find(name); err == nil && s.Kind != catalog.Streamed {
			return Invalid("strategy %s has no seams: only strategies that write orders behind the sale have them",
				name)
		}
	}
	return c.checkSeams(Seams())
}

// stopWorkers ends the workers.
func (r *run) stopWorkers() {
	if r.workers != nil {
		r.workers.Stop(stopTimeout)
	}
}

// killAtSeams kills a shop after its script. It also kills workers, one after the other, at the
// seams where they read and write orders. Only the workers write orders, and the last one writes
// all that remain.
func (r *run) killAtSeams(ctx, buyers context.Context) error {
	var g errgroup.Group
	if slices.Contains(r.cfg.Seams, SeamScript) {
		g.Go(func() error {
			return r.shops.inject(buyers, func(m *fleet.Member) error {
				r.faults.kill(m, SeamScript)
				return nil
			})
		})
	}
	g.Go(func() error { return r.killWorkers(ctx) })
	return g.Wait()
}

// killWorkers starts a worker for each seam of a consumer, and kills it at the seam once the next
// worker is running. The last worker is not killed, and writes the orders that the killed ones have
// left.
func (r *run) killWorkers(ctx context.Context) error {
	seams := slices.DeleteFunc(slices.Clone(r.cfg.Seams), func(at fleet.Seam) bool { return at == SeamScript })
	r.workers = fleet.New(func(n int) (fleet.Program, error) { return r.worker(n, seams), nil })
	var victim *fleet.Member
	for n := range len(seams) + 1 {
		next, err := r.workers.Add(ctx)
		if err != nil {
			return err
		}
		if victim != nil {
			r.faults.kill(victim, seams[n-1])
		}
		if victim = next; n == len(seams) {
			return nil
		}
		waiting, cancel := context.WithTimeout(ctx, r.limit())
		_, err = r.workers.Next(waiting)
		cancel()
		if err != nil {
			return fmt.Errorf("waiting for a worker at seam %s: %w", seams[n], err)
		}
	}
	return nil
}

// worker returns the program of the n-th process that writes accepted orders. The process waits at
// the n-th seam, if there is one.
func (r *run) worker(n int, seams []fleet.Seam) fleet.Program {
	s := r.shops.setup
	s.Name, s.NoConsumer, s.Worker = fmt.Sprintf("%s-worker-%d", r.skus[0], n), false, true
	if n <= len(seams) {
		s.Fault.At = seams[n-1 : n]
	}
	return fleet.Program{Name: "instance " + s.Name, Command: r.shops.command, Setup: s}
}

// scriptHook returns a hook that reaches SeamScript after a script that has accepted an order.
func scriptHook(seams *fleet.Seams) redis.Hook {
	return fault.Redis{After: func(ctx context.Context, commands []redis.Cmder) {
		accepts := func(cmd redis.Cmder) bool { return cmd.Err() == nil && stock.Accepts(cmd) }
		if slices.ContainsFunc(commands, accepts) {
			seams.Reach(ctx, SeamScript)
		}
	}}
}
