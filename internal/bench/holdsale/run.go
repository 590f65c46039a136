package holdsale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/fleet"
)

// Progress receives the progress of a bench, as bench.Progress does.
type Progress interface {
	// Row begins row n of all, for a stage under a condition.
	Row(n, all int, stage string, c catalog.Condition)
	// Waiting gets a function that returns how many buyers of the row have no outcome.
	Waiting(waiting func() int64)
	// Done gets a finished row.
	Done(row report.Row)
}

// Run runs all rows of the config one after the other: all once, then all again, as often as
// they are repeated. When it fails or ctx is cancelled, it returns the finished rows with the
// error: one of Check, of a process, or the cause of ctx.
func Run(ctx context.Context, cfg Config, p Progress) (rows []report.Row, err error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	b := &runner{cfg: cfg, progress: p}
	if b.shops, err = open(ctx, cfg); err != nil {
		return nil, err
	}
	defer func() { b.shops.close() }()
	b.client = newClient(b.shops)
	defer b.client.close()
	b.stalls = fleet.WatchStalls(tolerable(cfg.TTL), nil)
	defer b.stalls.Stop()
	defer func() { err = errors.Join(err, b.tidy(ctx.Err() != nil)) }()
	for repeat := 1; repeat <= cfg.Repeat; repeat++ {
		for _, c := range cfg.Conditions {
			for _, name := range cfg.Stages {
				row, err := b.undisturbed(ctx, name, c)
				if err != nil {
					return b.rows, fmt.Errorf("running %s under %s: %w", name, c, err)
				}
				row.Repeat = repeat
				b.rows = append(b.rows, row)
				p.Done(row)
			}
		}
	}
	return b.rows, nil
}

// runner is a bench in progress.
type runner struct {
	cfg      Config
	progress Progress
	shops    *shops
	client   *client
	stalls   *fleet.StallWatch
	rows     []report.Row
	skus     []string // of the items that were put on sale
}

// maxTries bounds how often a row is run if processes stall.
const maxTries = 4

// undisturbed runs a row, as in package bench: one that differs from the expectation while a
// process stalled is run again, with holds that live twice as long.
func (b *runner) undisturbed(ctx context.Context, name string, c catalog.Condition) (report.Row, error) {
	stage, err := catalog.FindHoldStage(name)
	if err != nil {
		return report.Row{}, err
	}
	cfg := b.cfg
	var discarded []report.Discarded
	for {
		b.restart(cfg, c)
		b.stalls.Reset()
		row, err := b.row(ctx, cfg, stage, c)
		if err != nil {
			return report.Row{}, err
		}
		stalled := max(b.stalls.Get(), b.shops.Stalled())
		row.TTL, row.Stalled, row.Discarded = cfg.TTL.String(), figures.Milliseconds(stalled), discarded
		first := len(discarded) == 0
		if stalled <= tolerable(cfg.TTL) || first && row.Expected || 2*cfg.TTL > MaxTTL || len(discarded) == maxTries-1 {
			return row, nil
		}
		discarded = append(discarded, report.Discarded{TTL: row.TTL, Verdict: row.Verdict, Differs: row.Differs, Stalled: row.Stalled})
		cfg.TTL *= 2
	}
}

// restart ends the shops if the config or the condition needs others. The row starts new ones.
func (b *runner) restart(cfg Config, c catalog.Condition) {
	severable := c == catalog.Partition
	if b.shops.cfg.TTL != cfg.TTL || b.shops.severable != severable {
		b.shops.Stop(stopTimeout)
		b.shops.cfg, b.shops.severable = cfg, severable
	}
}

// row runs one row on its own item.
func (b *runner) row(ctx context.Context, cfg Config, stage catalog.HoldStage, c catalog.Condition) (report.Row, error) {
	b.progress.Row(len(b.rows)+1, len(cfg.Conditions)*len(cfg.Stages)*cfg.Repeat, stage.Name, c)
	sku := fmt.Sprintf("bench-%s-%d", cfg.ID, len(b.skus)+1)
	b.skus = append(b.skus, sku)
	r := &row{cfg: cfg, stage: stage, cond: c, sku: sku, shops: b.shops, client: b.client}
	b.progress.Waiting(r.waiting.Load)
	row, err := r.do(ctx)
	if err != nil && ctx.Err() == nil {
		// That a process ended by itself says more than that it does not answer.
		if crashed := b.shops.crashed(); crashed != nil {
			return report.Row{}, crashed
		}
	}
	return row, err
}

// The time limits for the removal of an item, and of all items after an interruption: the
// user is waiting.
const (
	removeTimeout    = 20 * time.Second
	interruptTimeout = 10 * time.Second
)

// tidy removes the items, orders and holds of the bench.
func (b *runner) tidy(interrupted bool) error {
	if len(b.skus) == 0 || len(b.shops.Running()) == 0 {
		return nil
	}
	limit := removeTimeout * time.Duration(len(b.skus))
	if interrupted {
		limit = interruptTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	for i, sku := range b.skus {
		if err := b.client.delete(ctx, sku); err != nil {
			return bench.MayBeLeft(fmt.Errorf("removing the bench's items: %w", err), b.skus[i:])
		}
	}
	return nil
}
