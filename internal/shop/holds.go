package shop

import (
	"context"
	"fmt"

	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/payment"
	"oversell/internal/web"
)

// openHolds opens the sale by holds, and adds it to the config. The argument own is the shop's
// embedded payment provider, or nil. The caller must call end.
func openHolds(ctx context.Context, cfg *Config, own *payment.Server) (end func(), err error) {
	c := &cfg.Holds
	c.DB = cfg.Stock.DB
	if err := holds.Migrate(ctx, c.DB); err != nil {
		return nil, err
	}
	pool, err := c.DB.DB()
	if err != nil {
		return nil, fmt.Errorf("opening the sale by holds: %w", err)
	}
	b := holds.Backends{Redis: cfg.Stock.Redis, DB: pool, SQL: holds.DialectOf(c.DB)}
	c.Stages = catalog.Holds(b)
	if own != nil {
		faults := payfault.New(payfault.Config{Provider: own, Backends: b, New: catalog.Holds})
		c.Stages, cfg.Web.HoldFaults = faults.Wrap(c.Stages), faults
	}
	if cfg.AdjustHolds != nil {
		cfg.AdjustHolds(c)
	}
	s := holds.New(*c)
	cfg.Stock.Holds, cfg.Web.Holds = s, s
	cfg.Web.HoldStage = catalog.DefaultHoldStage
	for _, stage := range catalog.HoldStages() {
		cfg.Web.HoldStages = append(cfg.Web.HoldStages,
			web.Strategy{Name: stage.Name, Adds: stage.Adds, Breaks: stage.Breaks})
	}
	stop := context.AfterFunc(ctx, s.Close) // while requests drain, as it may wait for a statement
	return func() {
		stop()
		s.Close()
	}, nil
}
