package shop

import (
	"fmt"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/catalog"
	"oversell/internal/holds"
)

// stageNames are the stages of holds, in the order of the lessons.
func stageNames() []string {
	var names []string
	for _, stage := range catalog.HoldStages() {
		names = append(names, stage.Name)
	}
	return names
}

// openHolds returns the service that sells items by holds, and what to call after its end.
func openHolds(cfg Config, rdb redis.UniversalClient, db *gorm.DB, paid *payments) (_ *holds.Service, done func() error, err error) {
	pool, err := db.DB()
	if err != nil {
		return nil, nil, fmt.Errorf("opening the sale by holds: %w", err)
	}
	b := holds.Backends{Redis: rdb, DB: pool, SQL: holds.DialectOf(db)}
	c := holds.Config{
		DB: db, Stages: catalog.Holds(b),
		TTL: cfg.HoldTTL, Limit: cfg.HoldLimit, Sweep: cfg.HoldSweep, Logger: cfg.Logger,
	}
	if paid.client != nil {
		c.Payments = paid.client
	}
	done = func() error { return nil }
	if cfg.AdjustHolds != nil {
		done = cfg.AdjustHolds(&c, b)
	}
	return holds.New(c), done, nil
}
