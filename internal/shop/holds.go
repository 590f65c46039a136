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

// openHolds returns the service that sells items by holds.
func openHolds(cfg Config, rdb redis.UniversalClient, db *gorm.DB, paid *payments) (*holds.Service, error) {
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("opening the sale by holds: %w", err)
	}
	c := holds.Config{
		DB: db, Stages: catalog.Holds(holds.Backends{Redis: rdb, DB: pool, SQL: holds.DialectOf(db)}),
		TTL: cfg.HoldTTL, Limit: cfg.HoldLimit, Sweep: cfg.HoldSweep, Logger: cfg.Logger,
	}
	if paid.client != nil {
		c.Payments = paid.client
	}
	return holds.New(c), nil
}
