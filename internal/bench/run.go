package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"oversell/internal/backend"
	"oversell/internal/backend/lockservers"
	"oversell/internal/locks"
	"oversell/internal/proc"
)

// Progress is told how far a bench is. Its methods are called from one
// goroutine at a time.
type Progress interface {
	// Row begins row n of all, for a strategy under a condition.
	Row(n, all int, strategy string, c locks.Condition)
	// Waiting gives a function that returns how many outcomes of the row are
	// still awaited. It is safe to be called until the next Row.
	Waiting(waiting func() int64)
	// Done gives a row that is finished.
	Done(row Row)
}

// Run runs all rows of the config, one after the other: all of them once, and
// then all again, as often as they are to be repeated. What slows the machine
// down for a while so befalls all rows alike, and not all the runs of one. When
// it fails, or ctx is cancelled, it returns the rows that are finished with the
// error: one of Check, of a shop or a backend, or the cause of ctx.
func Run(ctx context.Context, cfg Config, p Progress) (rows []Row, err error) {
	asked := cfg
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.chaotic() {
		return runChaos(ctx, cfg, p)
	}
	b := &runner{asked: asked, cfg: cfg, progress: p, token: cfg.Token, targets: cfg.Targets}
	if len(cfg.Targets) == 0 {
		b.token = uuid.NewString()
		if b.terms, err = lockservers.Ask(ctx, cfg.Servers); err != nil {
			return nil, err
		}
		if b.fleet, err = b.newFleet(cfg); err != nil {
			return nil, err
		}
		defer func() { b.fleet.stop(stopTimeout) }()
	}
	b.admin = newShopClient(b.token)
	defer b.admin.close()
	if err := b.askTargets(ctx); err != nil {
		return nil, err
	}
	b.stalls = proc.WatchStalls(tolerable(cfg.TTL), nil)
	defer b.stalls.Stop()
	defer func() { err = errors.Join(err, b.tidy(ctx.Err() != nil)) }()
	for repeat := 1; repeat <= cfg.Repeat; repeat++ {
		if err := b.round(ctx, repeat); err != nil {
			return b.rows, err
		}
	}
	return b.rows, nil
}

// round runs every row once. Then it removes the items of the round before:
// what was late to be written for them has been written by now.
func (b *runner) round(ctx context.Context, repeat int) error {
	old := len(b.skus)
	for _, c := range b.cfg.Conditions {
		for _, name := range b.cfg.Strategies {
			row, err := b.undisturbed(ctx, name, c)
			if err != nil {
				return fmt.Errorf("running %s under %s: %w", name, c, err)
			}
			row.Repeat = repeat
			b.rows = append(b.rows, row)
			b.progress.Done(row)
		}
	}
	return b.remove(ctx, old)
}

// newFleet returns the instances that cfg asks for. None of them runs yet.
func (b *runner) newFleet(cfg Config) (*fleet, error) {
	cfg.slack = b.latest()
	redisURL, err := backend.WithReadTimeout(cfg.RedisURL, cfg.long()+replyTime)
	if err != nil {
		return nil, err
	}
	f := &fleet{command: cfg.Command, setup: setup{
		RedisURL: redisURL, DBURL: cfg.DBURL, Name: b.cfg.ID, Token: b.token,
		TTL: cfg.TTL, Wait: cfg.Wait, Policy: cfg.Policy.String(), Unfenced: cfg.Unfenced, Servers: cfg.Servers,
	}}
	_, f.gauged = b.progress.(Watcher)
	if b.fleet != nil {
		f.started = b.fleet.started // no name is given twice
	}
	return f, nil
}

// latest is by how much later than its end the lease of any strategy may be ended: the
// rows of all share the instances.
func (b *runner) latest() (slack time.Duration) {
	for _, t := range b.terms {
		slack = max(slack, t.Slack)
	}
	return slack
}

// replyTime is how long an instance waits for Redis, over the time that it may
// be paused: what it was waiting for before is not late when it goes on.
const replyTime = 2 * time.Second

// runner is a bench under way.
type runner struct {
	asked    Config // what cfg was before its defaults
	cfg      Config
	progress Progress
	token    string
	targets  []string
	fleet    *fleet // nil with shops that run already
	terms    map[locks.Need]lockservers.Terms
	admin    *shopClient
	rows     []Row
	items    int      // put on sale so far
	skus     []string // of those that are still there
	stalls   *proc.StallWatch
}

// maxTries bounds how often a row is run while the machine stands still.
const maxTries = 4

// tolerable is for how long a process may stand still without harm to what a
// lease of ttl has to show.
func tolerable(ttl time.Duration) time.Duration { return ttl / 5 }

// undisturbed runs a row. If it came out otherwise than it must while the machine
// stood still, only a try in which it did not stand still decides, whatever that
// comes to: each further one has twice the ttl, and so bears twice the stall.
// What is discarded stays on record. Of the processes of shops that run already
// nothing is known: their rows stand.
func (b *runner) undisturbed(ctx context.Context, name string, c locks.Condition) (Row, error) {
	strategy, err := b.cfg.Catalog.Find(name)
	if err != nil {
		return Row{}, err
	}
	asked := b.asked
	asked.ID = b.cfg.ID // which is drawn anew otherwise
	cfg := asked.forCondition(c).on(b.terms[strategy.Needs]).WithDefaults()
	var discarded []Discarded
	for {
		if err := b.refit(cfg, c); err != nil {
			return Row{}, err
		}
		b.stalls.Reset()
		row, err := b.row(ctx, cfg, strategy, c)
		if err == nil && b.fleet == nil {
			err = b.refused(ctx, cfg, row)
		}
		if err != nil || b.fleet == nil {
			return row, err
		}
		stalled := max(b.stalls.Get(), b.fleet.stalled())
		row.TTL, row.Stalled, row.Discarded = cfg.TTL.String(), milliseconds(stalled), discarded
		first := len(discarded) == 0
		if stalled <= tolerable(cfg.TTL) || first && row.Expected || row.untrue() != "" || len(discarded) == maxTries-1 {
			return row, nil
		}
		discarded = append(discarded, Discarded{TTL: row.TTL, Verdict: row.Verdict, Differs: row.Differs, Stalled: row.Stalled})
		asked.TTL = 2 * cfg.TTL
		cfg = asked.forCondition(c).on(b.terms[strategy.Needs]).WithDefaults()
	}
}

// refit replaces the instances if cfg or the condition asks for others. They stay
// until then: in the end one is needed to tidy up.
func (b *runner) refit(cfg Config, c locks.Condition) error {
	severable := c == locks.Partition
	if b.fleet == nil || b.fleet.setup.TTL == cfg.TTL && b.fleet.severable == severable {
		return nil
	}
	b.fleet.stop(stopTimeout)
	f, err := b.newFleet(cfg)
	if err != nil {
		return err
	}
	f.severable = severable
	b.fleet = f
	return nil
}

// row runs one row on an item of its own, so that nothing that is left of an
// earlier row can count for it.
func (b *runner) row(ctx context.Context, cfg Config, strategy locks.Strategy, c locks.Condition) (Row, error) {
	if b.fleet != nil {
		if err := b.fleet.fill(ctx, b.cfg.Instances); err != nil {
			return Row{}, err
		}
		b.targets = b.fleet.urls()
	}
	b.progress.Row(len(b.rows)+1, len(b.cfg.Conditions)*len(b.cfg.Strategies)*b.cfg.Repeat, strategy.Name, c)
	b.items++
	sku := fmt.Sprintf("bench-%s-%d", b.cfg.ID, b.items)
	b.skus = append(b.skus, sku)
	r := &run{
		cfg: cfg, strategy: strategy, cond: c, sku: sku,
		targets: b.targets, admin: b.admin, fleet: b.fleet, waiting: b.progress.Waiting,
	}
	r.watcher, _ = b.progress.(Watcher)
	row, err := r.do(ctx)
	if err != nil && ctx.Err() == nil && b.fleet != nil {
		// That an instance is gone says more than that it does not answer.
		if fallen := b.fleet.fallen(lastGasp); fallen != nil {
			return Row{}, fallen
		}
	}
	return row, err
}

// lastGasp is how long a process may take to end after its connections did.
const lastGasp = 200 * time.Millisecond

// tidy removes the items, orders and keys of the bench. When it was interrupted the
// instances may still be selling, and write what was just removed: they end first,
// and a new one does it. Somebody waits for that, and so it takes some seconds at most.
func (b *runner) tidy(interrupted bool) error {
	if !interrupted || b.fleet == nil || len(b.skus) == 0 {
		return b.remove(context.Background(), len(b.skus))
	}
	b.fleet.stop(interruptGrace)
	ctx, cancel := context.WithTimeout(context.Background(), interruptTimeout)
	defer cancel()
	if err := b.removeAnew(ctx); err != nil {
		return fmt.Errorf("%w; left are perhaps %s", err, strings.Join(b.skus, ", "))
	}
	return nil
}

// The time that an interrupted bench takes.
const (
	interruptGrace   = 2 * time.Second  // for the sales under way, until their instances are killed
	interruptTimeout = 10 * time.Second // for the removal of the items
)

// removeAnew removes the items that are still there by an instance that is started
// for it.
func (b *runner) removeAnew(ctx context.Context) error {
	b.fleet.severable = false
	if b.cfg.Failovers != nil {
		// Sentinels may be about to promote a replica, or have none to promote. What
		// is in their set is thrown away with it; the database may be the user's own.
		redis, err := backend.ServeRedis(ctx, "embedded")
		if err != nil {
			return fmt.Errorf("removing the bench's items: %w", err)
		}
		defer func() { _ = redis.Close() }() // there was nothing in it
		defer b.fleet.stop(interruptGrace)
		b.fleet.setup.RedisURL = redis.URL
	}
	if err := b.fleet.add(ctx, 1); err != nil {
		return fmt.Errorf("removing the bench's items: %w", err)
	}
	return b.remove(ctx, len(b.skus))
}

// removeTimeout bounds the removal of one item.
const removeTimeout = 20 * time.Second

// remove removes the first n items that are still there.
func (b *runner) remove(ctx context.Context, n int) error {
	base := ""
	if b.fleet == nil {
		base = b.targets[0]
	} else if i := b.fleet.survivor(); i != nil {
		base = i.url
	} else {
		return nil // no shop ever ran, or none is left to ask
	}
	for range n {
		if err := b.removeOne(ctx, base, b.skus[0]); err != nil {
			return fmt.Errorf("removing the bench's items: %w", err)
		}
		b.skus = b.skus[1:]
	}
	return nil
}

func (b *runner) removeOne(ctx context.Context, base, sku string) error {
	ctx, cancel := context.WithTimeout(ctx, removeTimeout)
	defer cancel()
	return b.admin.delete(ctx, base, sku)
}
