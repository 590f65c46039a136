package shop

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/web"
)

// holdStages describes the stages of holds, in the order of the lessons.
func holdStages() []web.Strategy {
	var all []web.Strategy
	for _, stage := range catalog.HoldStages() {
		all = append(all, web.Strategy{Name: stage.Name, Adds: stage.Adds, Breaks: stage.Breaks})
	}
	return all
}

// heldSale is the sale by holds.
type heldSale struct {
	*holds.Service
	faults *payfault.Faults // of single payments; nil: the payment provider is not the shop's own
	done   func() error     // to be called after Close
}

// openHolds opens the sale by holds.
func openHolds(cfg Config, rdb redis.UniversalClient, db *gorm.DB, paid *payments) (*heldSale, error) {
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("opening the sale by holds: %w", err)
	}
	b := holds.Backends{Redis: rdb, DB: pool, SQL: holds.DialectOf(db)}
	c := holds.Config{
		DB: db, Stages: catalog.Holds(b),
		TTL: cfg.HoldTTL, Limit: cfg.HoldLimit, Sweep: cfg.HoldSweep, Settle: cfg.HoldSettle, Logger: cfg.Logger,
	}
	if paid.client != nil {
		c.Payments, c.Ledger = paid.client, paid.ledgerName
	}
	s := &heldSale{done: func() error { return nil }}
	if paid.own != nil {
		s.faults = payfault.New(payfault.Config{
			Provider: paid.own, Backends: b, New: catalog.Holds,
			Dial: func(ctx context.Context, through func(driver.Connector) driver.Connector) (*gorm.DB, error) {
				return backend.DialDatabaseThrough(ctx, cfg.DBURL, through)
			},
		})
		c.Stages = s.faults.Wrap(c.Stages)
		s.done = s.faults.Close
	}
	if cfg.AdjustHolds != nil {
		adjusted, closed := cfg.AdjustHolds(&c, b), s.done
		s.done = func() error { return errors.Join(adjusted(), closed()) }
	}
	s.Service = holds.New(c)
	return s, nil
}
