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
)

// Run runs all rows of the config, whose Command runs Serve: see bench.Rows. When it fails or ctx
// is cancelled, it returns the finished rows with the error: one of Check, of a process, or the
// cause of ctx.
func Run(ctx context.Context, cfg bench.Config, p bench.Progress) ([]report.Row, error) {
	return run(ctx, config{Config: WithDefaults(cfg)}, p)
}

func run(ctx context.Context, cfg config, p bench.Progress) (rows []report.Row, err error) {
	if err := Check(cfg.Config); err != nil {
		return nil, err
	}
	b := &runner{cfg: cfg, progress: p}
	if b.shops, err = open(ctx, cfg); err != nil {
		return nil, err
	}
	defer func() { b.shops.close() }()
	b.client = newClient(b.shops)
	defer b.client.CloseIdleConnections()
	defer func() { err = errors.Join(err, b.tidy(ctx.Err() != nil)) }()
	return bench.Rows(ctx, cfg.Config, b, p)
}

// runner is a bench in progress.
type runner struct {
	cfg      config
	progress bench.Progress
	shops    *shops
	client   client.Shops
	skus     []string // of the items that were put on sale
}

// Row implements bench.Workload. Each row has its own item.
func (b *runner) Row(ctx context.Context, of bench.Case) (result bench.Result, err error) {
	stage, err := catalog.FindHoldStage(of.Strategy)
	if err != nil {
		return result, err
	}
	cfg := b.cfg
	cfg.TTL = cmp.Or(of.TTL, cfg.TTL)
	b.shops.restart(cfg, of.Condition)
	sku := fmt.Sprintf("bench-%s-%d", cfg.ID, len(b.skus)+1)
	b.skus = append(b.skus, sku)
	r := &row{cfg: cfg, stage: stage, cond: of.Condition, sku: sku, shops: b.shops, client: b.client}
	b.progress.Waiting(bench.Outcomes, r.waiting.Load)
	result = bench.Result{TTL: cfg.TTL, Fleet: b.shops.Fleet, Final: 2*cfg.TTL > maxTTL}
	result.Row, err = r.do(ctx)
	result.Missed = r.missed
	return result, err
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
