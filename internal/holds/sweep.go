package holds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"gorm.io/gorm"

	"oversell/internal/guard"
	"oversell/internal/stock"
)

const (
	// maxSwept is how many holds one call to Stage.Sweep ends.
	maxSwept = 500
	// slowSweep is how long a round of sweeps waits for an item.
	slowSweep = time.Second
	// maxSlow is how many items that were slow the last time are swept at the same time: each may keep a
	// database connection. A sweep that is slow for the first time is not among them.
	maxSlow = 8
	// sweepTimeout ends the sweep of a slow item, so that another one gets a turn. It is longer than
	// the 50 s that MySQL and MariaDB wait for a lock, so that such waits end first: h1_counter and
	// h2_status lose the units of a hold if they are interrupted between two writes.
	sweepTimeout = time.Minute
)

// heldItems reads which items are sold by holds.
func (s *Service) heldItems(ctx context.Context) (items []stock.Item, err error) {
	err = s.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select("sku", "sale_id").Where("keeper = ?", stock.InHolds).Find(&items)
	}, "reading which items are sold by holds")
	return items, err
}

// sweepSale ends the expired holds of an item's sale, if this shop has its stage, and returns their
// units to the stock. It sweeps until a sweep ends no hold. If some holds cannot be ended, it ends
// the others.
func (s *Service) sweepSale(ctx context.Context, item stock.Item) error {
	name, err := s.saleStage(ctx, item.SaleID, "")
	stage, ok := s.cfg.Stages[name]
	if err != nil || !ok {
		return err
	}
	for ctx.Err() == nil {
		n, err := stage.Sweep(ctx, item.SKU, maxSwept)
		if n == 0 && err != nil {
			return fmt.Errorf("ending the expired holds of %s: %w", item.SKU, err)
		}
		if n == 0 {
			return nil
		}
		s.log.Debug("holds have expired", "sku", item.SKU, "holds", n)
	}
	return nil
}

// sweeper sweeps all items in rounds. An item that cannot be swept, because its row is locked or
// its Redis is unavailable, must not delay the others.
type sweeper struct {
	*Service
	room chan struct{} // one element for each slow item that is being swept

	mu sync.Mutex
	// slow maps the SKU of an item to true while its sweep is under way, and to false if its last
	// sweep was slow or failed.
	slow map[string]bool
}

// sweepAll ends holds that have expired, again and again until ctx ends. It does not depend on
// requests, so even the units of a sale's last hold return to the stock. Shops do not coordinate
// their sweeps, so the pauses have a random length.
func (s *Service) sweepAll(ctx context.Context) {
	r := &sweeper{Service: s, room: make(chan struct{}, maxSlow), slow: make(map[string]bool)}
	for guard.Sleep(ctx, s.cfg.Sweep/2+rand.N(s.cfg.Sweep)) == nil {
		items, err := s.heldItems(ctx)
		if err == nil {
			r.round(ctx, items)
		} else if ctx.Err() == nil {
			s.log.Warn("holds that have expired keep their units for now", "error", err)
		}
	}
}

// round sweeps the items one after the other. If one takes long, its sweep continues in the
// background. Items that were slow the last time come last, in random order.
func (r *sweeper) round(ctx context.Context, items []stock.Item) {
	quick, slow := r.split(items)
	for _, item := range quick {
		select {
		case <-ctx.Done():
			return
		case <-r.begin(ctx, item, func() {}):
		case <-time.After(slowSweep):
		}
	}
	over := time.After(slowSweep)
	for _, i := range rand.Perm(len(slow)) {
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case r.room <- struct{}{}:
			r.begin(ctx, slow[i], func() { <-r.room })
		}
	}
}

// split returns the items that are not being swept: those whose last sweep was quick, and the
// others. It forgets items that are no longer sold, and the stages of sales that are over.
func (r *sweeper) split(items []stock.Item) (quick, slow []stock.Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, sales := make(map[string]bool), make(map[string]bool)
	for _, item := range items {
		sales[item.SaleID] = true
		underWay, ok := r.slow[item.SKU]
		switch {
		case !ok:
			quick = append(quick, item)
		case !underWay:
			slow = append(slow, item)
			known[item.SKU] = true
		}
	}
	maps.DeleteFunc(r.slow, func(sku string, underWay bool) bool { return !underWay && !known[sku] })
	r.sales.Range(func(id, _ any) bool {
		if !sales[id.(string)] {
			r.sales.Delete(id) // a late request reads it from the database
		}
		return true
	})
	return quick, slow
}

// begin starts the sweep of an item. When it ends, done is called and the channel is closed.
func (r *sweeper) begin(ctx context.Context, item stock.Item, done func()) <-chan struct{} {
	r.mark(item.SKU, true)
	ended := make(chan struct{})
	r.background.Go(func() {
		defer close(ended)
		defer done()
		ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
		defer cancel()
		start := time.Now()
		err := r.sweepSale(ctx, item)
		if err != nil && !errors.Is(context.Cause(ctx), context.Canceled) {
			r.log.Warn("ending holds that have expired failed, and their units stay taken for now",
				"sku", item.SKU, "error", err)
		}
		if err != nil || time.Since(start) > slowSweep {
			r.mark(item.SKU, false)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.slow, item.SKU)
	})
	return ended
}

func (r *sweeper) mark(sku string, underWay bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.slow[sku] = underWay
}
