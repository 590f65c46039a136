package stock

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// Restocked is the result of a restock.
type Restocked struct {
	SKU      string `json:"sku"`
	SaleID   string `json:"sale_id"`
	Added    int64  `json:"added"`
	Initial  int64  `json:"initial"`  // units of the sale, including these
	Replayed bool   `json:"replayed"` // an earlier request with the same key added them
}

// restock is the row of a restock that had an idempotency key.
type restock struct {
	SKU            string `gorm:"primaryKey;size:64"`
	SaleID         string `gorm:"primaryKey;size:36"`
	IdempotencyKey string `gorm:"primaryKey;size:128"`
	Units          int64  `gorm:"not null"`
	Initial        int64  `gorm:"not null"` // units of the sale, including these
}

func (restock) TableName() string { return "oversell_restocks" }

// Restock adds units to the current sale of an item. It returns ErrInvalid, ErrUnknownItem,
// ErrKeyReused, and ErrLocation for a sale by holds whose units are not in the item's row.
//
// The same transaction increases the units of the sale and begins a new generation of the stock, or
// writes the stock if it is sold by holds. A new generation starts with all units minus those in
// orders. So Restock never adds to a number that a holder may have read and is about to write, and
// nothing can be added twice. A process that is killed before the commit has added nothing. If it
// is killed after the commit, the next reader makes Redis agree with the database. Buyers in flight
// try again in the new generation.
func (s *Service) Restock(ctx context.Context, sku, key string, add int64) (Restocked, error) {
	if err := cmp.Or(CheckSKU(sku), CheckKey(key)); err != nil {
		return Restocked{}, err
	}
	if add < 1 || add > MaxStock {
		return Restocked{}, fmt.Errorf("%w: add is %d; it must be 1 to %d", ErrInvalid, add, MaxStock)
	}
	item, err := s.store.item(ctx, sku)
	if err == nil && item.backend() == InHolds {
		err = s.cfg.Holds.CheckRestock(ctx, item)
	}
	var done Restocked
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), countTimeout)
		defer cancel()
		err = s.store.changePool(ctx, sku, func(tx store) (err error) {
			done, err = s.restock(ctx, tx, sku, key, add)
			return err
		})
	}
	if err != nil {
		return Restocked{}, fmt.Errorf("adding %d units to %s: %w", add, sku, err)
	}
	return done, nil
}

// restock does the work of Restock in a transaction.
func (s *Service) restock(ctx context.Context, tx store, sku, key string, add int64) (Restocked, error) {
	item, err := tx.locked(sku)
	if err != nil {
		return Restocked{}, err
	}
	if done, found, err := tx.restocked(item, key); err != nil || found {
		if err == nil && done.Added != add {
			err = ErrKeyReused
		}
		return done, err
	}
	if item.Initial+add > MaxStock {
		return Restocked{}, fmt.Errorf("%w: the sale has %d units, and add must be 1 to %d: a sale has at most %d",
			ErrInvalid, item.Initial, MaxStock-item.Initial, MaxStock)
	}
	item.Initial += add
	if err := tx.addToSale(item, key, add); err != nil {
		return Restocked{}, err
	}
	switch item.backend() {
	case InHolds:
		err = tx.setRemaining(item, item.Remaining+add)
	case InDatabase:
		if item, err = tx.drain(item); err == nil {
			item.Remaining += add
			err = s.beginGeneration(ctx, tx, item, 0)
		}
	default:
		err = s.startGeneration(ctx, tx, item, item.Family)
	}
	return Restocked{SKU: sku, SaleID: item.SaleID, Added: add, Initial: item.Initial}, err
}

// restocked returns the result of an earlier restock of the item's sale with the same key.
func (s store) restocked(item Item, key string) (done Restocked, found bool, err error) {
	if key == "" {
		return Restocked{}, false, nil
	}
	var last restock
	err = s.db.Where("sku = ? AND sale_id = ? AND idempotency_key = ?", item.SKU, item.SaleID, key).Take(&last).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return Restocked{}, false, nil
	}
	if err != nil {
		return Restocked{}, false, fmt.Errorf("looking up the restock of an idempotency key: %w", err)
	}
	return Restocked{item.SKU, item.SaleID, last.Units, last.Initial, true}, true, nil
}

// addToSale writes the sale's new number of units, and a row for the restock if it has a key.
func (s store) addToSale(item Item, key string, add int64) error {
	err := errors.Join(
		s.db.Model(&Item{}).Where("sku = ?", item.SKU).UpdateColumn("initial", item.Initial).Error,
		s.db.Model(&Sale{}).Where("id = ?", item.SaleID).UpdateColumn("initial", item.Initial).Error)
	if err == nil && key != "" {
		err = s.db.Create(&restock{item.SKU, item.SaleID, key, add, item.Initial}).Error
	}
	if err != nil {
		return fmt.Errorf("adding %d units to sale %s: %w", add, item.SaleID, err)
	}
	return nil
}
