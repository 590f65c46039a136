package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"oversell/internal/guard"
)

// A lock does not know the holders of another lock, and a script knows no holders at all. So
// strategies that do not exclude each other belong to different families, and the generation of a
// stock names the family that sells it. Another family first begins a generation of its own, and
// orders of the earlier generation are then refused.
//
// Families that sell at the same time take turns. A turn lasts until the family has sold something,
// so that each makes progress, and at least minTurn, so that not every order needs a new
// generation. A family that sells nothing keeps the others out for Config.Turn.
const (
	minTurn     = 100 * time.Millisecond
	defaultTurn = 2 * time.Second
	// turnDelay is how long a buyer sleeps before it checks again whether a turn is over.
	turnDelay = 50 * time.Millisecond
)

// Family returns the family of a strategy, which must be one of Config.Strategies. Strategies of one
// family may sell an item at the same time.
func (s *Service) Family(strategy string) string { return s.cfg.Strategies[strategy].Family }

// atWorkError is an ErrOtherStrategy that names the other family.
type atWorkError struct{ family string }

func (e atWorkError) Error() string {
	return fmt.Sprintf("%v: %s, which does not exclude this one; -mixed lets them work together",
		ErrOtherStrategy, e.family)
}
func (e atWorkError) Unwrap() error { return ErrOtherStrategy }

// checkTurn returns an atWorkError while the turn of an item's family lasts. It counts the orders
// through the given store, which may be a transaction.
func (s *Service) checkTurn(at store, item Item) error {
	if item.Family == "" {
		return nil
	}
	now, err := s.clock(at)
	if err != nil {
		return err
	}
	lasts := time.Duration(now-item.TurnBegan) * time.Millisecond
	if lasts > s.cfg.Turn {
		return nil
	}
	if lasts < minTurn {
		return atWorkError{item.Family}
	}
	sold, err := at.sold(item.SKU, item.SaleID)
	if err == nil && sold == item.TurnSold {
		err = atWorkError{item.Family}
	}
	return err
}

// clock returns the time in Unix milliseconds. It asks the database, because the clocks of shops may
// differ.
func (s *Service) clock(at store) (ms int64, err error) {
	if s.cfg.Now != nil {
		return s.cfg.Now().UnixMilli(), nil
	}
	if err := at.db.Raw("SELECT " + ClockSQL(at.db)).Scan(&ms).Error; err != nil {
		return 0, fmt.Errorf("reading the clock of the database: %w", err)
	}
	return ms, nil
}

// yieldTurn ends a turn in which nothing was sold. A purchase that has waited for the turn calls
// yieldTurn if it fails or its buyer has left. Otherwise a family that cannot sell would keep the
// others out for the whole of its turn, again and again.
func (p *purchase) yieldTurn(ctx context.Context) {
	s := p.service
	err := s.store.query(ctx, func(db *gorm.DB) *gorm.DB {
		sold := db.Model(&Order{}).Select("COALESCE(SUM(quantity), 0)").
			Where("sku = ? AND sale_id = ?", p.req.SKU, p.gen.saleID)
		return db.Model(&Item{}).Where("sku = ? AND generation = ? AND turn_sold = (?)", p.req.SKU, p.gen.id, sold).
			UpdateColumn("turn_began", 0)
	}, "ending a turn at %s", p.req.SKU)
	if err != nil {
		s.log.Warn("a family that sells nothing keeps the others out for a while", "sku", p.req.SKU, "error", err)
	}
}

// claim begins a turn of the family on an item, unless the item already belongs to the family. It
// returns an atWorkError while the turn of another family lasts. Concurrent callers share one call.
// When wait ends, claim returns the cause, but the shared call continues.
func (s *Service) claim(wait context.Context, sku, family string) error {
	outcome := s.claims.DoChan(sku+" "+family, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(wait), countTimeout)
		defer cancel()
		check := func(at store, item Item, err error) (done bool, _ error) {
			if err != nil || item.Family == family {
				return true, err
			}
			return false, s.checkTurn(at, item)
		}
		// Check first without locking the row, because waiters do this again and again.
		item, err := s.store.item(ctx, sku)
		if done, err := check(store{s.store.db.WithContext(ctx)}, item, err); done || err != nil {
			return nil, err
		}
		return nil, s.store.changePool(ctx, sku, func(tx store) error {
			item, err := tx.locked(sku)
			if done, err := check(tx, item, err); done || err != nil {
				return err
			}
			return s.startGeneration(ctx, tx, item, family)
		})
	})
	select {
	case claimed := <-outcome:
		return claimed.Err
	case <-wait.Done():
		return context.Cause(wait)
	}
}

// takeTurn waits for the turn of the strategy's family on the item, and then reads the item in the
// new generation.
func (p *purchase) takeTurn(ctx, wait context.Context) error {
	var refused error // the last atWorkError
	for p.gen.family != p.Family {
		err := p.service.claim(wait, p.req.SKU, p.Family)
		if errors.Is(err, ErrOtherStrategy) {
			refused = err
			if err = guard.Sleep(wait, turnDelay); err == nil {
				continue
			}
		}
		if err == nil {
			p.stale, p.joined = true, true // Redis may not have the new generation yet
			err = p.look(ctx, wait)
		}
		switch {
		case refused != nil && errors.Is(err, ErrBusy): // the wait has timed out
			return refused
		case err != nil || p.res.Replayed:
			return err
		}
	}
	return nil
}
