package holdsale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"oversell/internal/bench"
	"oversell/internal/bench/client"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/fleet"
)

// Run runs all rows of the config: see bench.Series. When it fails or ctx is cancelled, it returns
// the finished rows with the error: one of Check, of a process, or the cause of ctx.
func Run(ctx context.Context, cfg Config, p bench.Progress) (rows []report.Row, err error) {
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
	defer b.client.CloseIdleConnections()
	b.stalls = fleet.WatchStalls(bench.Tolerable(cfg.TTL), nil)
	defer b.stalls.Stop()
	defer func() { err = errors.Join(err, b.tidy(ctx.Err() != nil)) }()
	return bench.Series{Strategies: cfg.Stages, Conditions: cfg.Conditions, Repeat: cfg.Repeat}.Run(ctx, b, p)
}

// runner is a bench in progress.
type runner struct {
	cfg      Config
	progress bench.Progress
	shops    *shops
	client   client.Shops
	stalls   *fleet.StallWatch
	skus     []string // of the items that were put on sale
}

// Row implements bench.Workload.
func (b *runner) Row(ctx context.Context, of bench.Case) (r bench.Result, err error) {
	stage, err := catalog.FindHoldStage(of.Strategy)
	if err != nil {
		return r, err
	}
	cfg := b.cfg
	cfg.TTL = cmp.Or(of.TTL, cfg.TTL)
	b.restart(cfg, of.Condition)
	b.stalls.Reset()
	r.Row, r.Missed, err = b.row(ctx, cfg, stage, of.Condition)
	r.TTL, r.Stalled, r.Final = cfg.TTL, max(b.stalls.Get(), b.shops.Stalled()), 2*cfg.TTL > MaxTTL
	return r, err
}

// restart ends the shops if the config or the condition needs others. The row starts new ones.
func (b *runner) restart(cfg Config, c catalog.Condition) {
	severable := c == catalog.Partition
	if b.shops.cfg.TTL != cfg.TTL || b.shops.severable != severable {
		b.shops.Stop(stopTimeout)
		b.shops.cfg, b.shops.severable = cfg, severable
	}
}

// row runs one row on its own item. It reports whether a fault hit nobody.
func (b *runner) row(
	ctx context.Context, cfg Config, stage catalog.HoldStage, c catalog.Condition,
) (_ report.Row, missed bool, err error) {
	sku := fmt.Sprintf("bench-%s-%d", cfg.ID, len(b.skus)+1)
	b.skus = append(b.skus, sku)
	r := &row{cfg: cfg, stage: stage, cond: c, sku: sku, shops: b.shops, client: b.client}
	b.progress.Waiting(r.waiting.Load)
	row, err := r.do(ctx)
	if err != nil && ctx.Err() == nil {
		// That a process ended by itself says more than that it does not answer.
		if crashed := b.shops.crashed(); crashed != nil {
			return report.Row{}, false, crashed
		}
	}
	return row, r.missed, err
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
		if err := b.client.Delete(ctx, sku); err != nil {
			return bench.MayBeLeft(fmt.Errorf("removing the bench's items: %w", err), b.skus[i:])
		}
	}
	return nil
}
