package holds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"oversell/internal/stock"
)

const (
	// maxSwept is how many holds one call of Stage.Sweep ends.
	maxSwept = 500
	// maxUnswept is how many items may fail before a sweep ends: then a backend is away, and
	// each of the others might take as long to fail.
	maxUnswept = 10
)

// sweepAll ends holds that have expired, again and again until ctx ends. It needs no
// requests: the last hold of a sale gives its units back too. The shops do not take turns, so
// the pauses between their sweeps are of random length.
func (s *Service) sweepAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.cfg.Sweep/2 + rand.N(s.cfg.Sweep)):
		}
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("ending holds that have expired failed, and their units stay taken for now", "error", err)
		}
	}
}

// Sweep ends the holds that have expired, of all items that are sold by holds, and gives their
// units back. The Service does so by itself every Config.Sweep.
func (s *Service) Sweep(ctx context.Context) error {
	var items []stock.Item
	db, cancel := s.limited(ctx)
	err := db.Select("sku", "sale_id").Where("keeper = ?", stock.InHolds).Find(&items).Error
	cancel()
	if err != nil {
		return fmt.Errorf("reading which items are sold by holds: %w", err)
	}
	var errs []error
	for _, item := range items {
		// One item that cannot be swept, such as a counter whose Redis is away, must not keep
		// the units of the others.
		if err := s.sweepSale(ctx, item); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil || len(errs) == maxUnswept {
			break
		}
	}
	return errors.Join(errs...)
}

// sweepSale ends the expired holds of an item's sale, if this shop has its stage.
func (s *Service) sweepSale(ctx context.Context, item stock.Item) error {
	name, err := s.saleStage(ctx, item.SaleID, "")
	if err != nil {
		return err
	}
	if stage, ok := s.cfg.Stages[name]; ok {
		return s.sweepItem(ctx, stage, item.SKU)
	}
	return nil
}

func (s *Service) sweepItem(ctx context.Context, stage Stage, sku string) error {
	for ctx.Err() == nil {
		n, err := stage.Sweep(ctx, sku, maxSwept)
		if err != nil {
			return fmt.Errorf("ending the expired holds of %s: %w", sku, err)
		}
		if n == 0 {
			return nil
		}
		s.log.Debug("holds have expired", "sku", sku, "holds", n)
	}
	return nil
}
