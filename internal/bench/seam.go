package bench

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/proc"
	"oversell/internal/stock"
)

// SeamScript is the seam of an accepted order after the script: the order is in the stream, and
// the buyer has not been told. The others are those of stock.Consumer.
const SeamScript = "script"

// Seams lists the seams at which condition crash can kill a process, in the order of an accepted
// order's life.
func Seams() []string { return []string{SeamScript, stock.SeamRead, stock.SeamWritten} }

// atSeams reports whether a condition kills processes at seams.
func (c Config) atSeams(condition catalog.Condition) bool {
	return condition == catalog.Crash && len(c.Seams) > 0
}

// checkSeams returns an error for seams at which nothing can be killed.
func (c Config) checkSeams() error {
	if len(c.Seams) == 0 {
		return nil
	}
	if !slices.Contains(c.Conditions, catalog.Crash) {
		return invalid("seams without condition %s, which kills there", catalog.Crash)
	}
	if seam, twice := repeated(c.Seams); twice {
		return invalid("seam %s is named twice", seam)
	}
	for _, seam := range c.Seams {
		if !slices.Contains(Seams(), seam) {
			return fmt.Errorf("%w of a seam: %q (allowed: %v)", catalog.ErrName, seam, Seams())
		}
	}
	for _, name := range c.Strategies {
		if s, err := c.Catalog.Find(name); err == nil && s.Kind != catalog.Streamed {
			return invalid("strategy %s has no seams: only orders that are written behind the sale have", name)
		}
	}
	return nil
}

// kills are the processes that were killed at seams in a row.
type kills struct {
	heir *instance // writes what the killed ones have left

	mu   sync.Mutex
	met  []string
	last time.Time
}

// killed notes that a process was killed.
func (k *kills) killed(seam string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.met, k.last = append(k.met, seam), time.Now()
}

// close ends the heir.
func (k *kills) close() {
	if k.heir != nil {
		k.heir.stop(stopTimeout)
	}
}

// figures returns what is reported. Agreed is when all accepted orders were written and the stock
// agreed with them; zero: it never did.
func (k *kills) figures(agreed time.Time) *report.Kills {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.met) == 0 {
		return nil
	}
	f := &report.Kills{KilledAt: slices.Clone(k.met)}
	if !agreed.IsZero() {
		f.AgreesAfterKill = new(max(0, agreed.Sub(k.last).Seconds()))
	}
	return f
}

// killAtSeams kills a shop after its script, and workers where they read and write, one after
// the other: the shops leave the writing to them. A last worker writes the rest.
func (r *run) killAtSeams(ctx, buyers context.Context) error {
	var g errgroup.Group
	if slices.Contains(r.cfg.Seams, SeamScript) {
		g.Go(func() error {
			return r.fleet.inject(buyers, func(i *instance) error {
				r.faults.begin(Killed)
				i.kill()
				r.kills.killed(SeamScript)
				return nil
			})
		})
	}
	g.Go(func() error { return r.killWorkers(ctx) })
	return g.Wait()
}

// killWorkers starts a worker for each seam of a consumer, and kills it there when the next one
// runs. The last one is the heir.
func (r *run) killWorkers(ctx context.Context) error {
	var victim *instance
	defer func() {
		if victim != nil {
			victim.kill()
		}
	}()
	at := ""
	for _, seam := range append(slices.DeleteFunc(slices.Clone(r.cfg.Seams), func(s string) bool { return s == SeamScript }), "") {
		next, err := r.startWorker(ctx, seam)
		if err != nil {
			return err
		}
		if victim != nil {
			r.faults.begin(Killed)
			victim.kill()
			r.kills.killed(at)
		}
		if seam == "" {
			victim, r.kills.heir = nil, next
			return nil
		}
		victim, at = next, seam
		if _, err = proc.Await(ctx, victim.Child, victim.parked, r.limit()); err != nil {
			return fmt.Errorf("waiting for a worker at seam %s: %w", seam, err)
		}
	}
	return nil
}

// startWorker starts a process that writes accepted orders, and that stops at a seam unless it is
// "".
func (r *run) startWorker(ctx context.Context, seam string) (*instance, error) {
	cmd, err := r.fleet.command()
	if err != nil {
		return nil, err
	}
	s := r.fleet.setup
	r.workers++
	s.Name, s.NoConsumer, s.Worker, s.Seam = fmt.Sprintf("%s-worker-%d", r.skus[0], r.workers), false, true, seam
	return start(ctx, cmd, s, means{})
}

// seam is the seam at which a process is to be killed. It is safe for concurrent use.
type seam struct {
	mu sync.Mutex
	at string // "": none
}

// set sets the seam.
func (s *seam) set(at string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = at
}

// meets reports whether the process has reached its seam, once.
func (s *seam) meets(at string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != at {
		return false
	}
	s.at = ""
	return true
}

// reach parks the first call that comes to the seam of the process.
func (s *server) reach(at string) {
	if s.seam.meets(at) {
		s.park()
	}
}

// scriptHook sees when a script has accepted orders.
type scriptHook struct{ s *server }

// DialHook is part of redis.Hook.
func (scriptHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is part of redis.Hook.
func (h scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && stock.Accepts(cmd) {
			h.s.reach(SeamScript)
		}
		return err
	}
}

// ProcessPipelineHook is part of redis.Hook.
func (h scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		err := next(ctx, commands)
		if slices.ContainsFunc(commands, func(cmd redis.Cmder) bool { return cmd.Err() == nil && stock.Accepts(cmd) }) {
			h.s.reach(SeamScript)
		}
		return err
	}
}
