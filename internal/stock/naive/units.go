package naive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/stock"
)

// pool returns the pool of the sale's units.
func (s Sale) pool() stock.Pool { return stock.Pool{SKU: s.Item.SKU, Generation: s.Item.Generation} }

// OpenPool puts all units into the pool.
func (s Sale) OpenPool(ctx context.Context) error {
	db := s.DB.WithContext(ctx)
	err := s.pool().Fill(db, 0, s.Item.Initial)
	if err == nil {
		err = db.Model(&stock.Item{}).Where("sku = ?", s.Item.SKU).UpdateColumn("remaining", 0).Error
	}
	if err != nil {
		return fmt.Errorf("putting the units of %s into a pool: %w", s.Item.SKU, err)
	}
	return nil
}

// Claim takes one unit of the pool and writes the order, in one transaction, with the item's row
// locked. It returns ErrSoldOut if the pool is empty.
//
// WRONG: the transaction is REPEATABLE READ and reads the pool before it has the lock. The second
// read, under the lock, is a plain read too, and is served from the snapshot of the first: it still
// shows a unit that was sold in the meantime.
func (s Sale) Claim(ctx context.Context) error {
	err := s.DB.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if _, err := s.free(tx); err != nil {
			return err
		}
		var item stock.Item
		if err := tx.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate}).Where("sku = ?", s.Item.SKU).
			Take(&item).Error; err != nil {
			return err
		}
		unit, err := s.free(tx)
		if err != nil {
			return err
		}
		// WRONG: nothing checks whether there was a row to delete.
		claimed := stock.Unit{SKU: s.Item.SKU, Generation: s.Item.Generation, Unit: unit}
		if err := tx.Delete(&claimed).Error; err != nil {
			return err
		}
		return Sale{DB: tx, Item: s.Item, Strategy: s.Strategy}.write(ctx, uuid.NewString())
	}, &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
	if err != nil && !errors.Is(err, ErrSoldOut) {
		return fmt.Errorf("claiming a unit of %s: %w", s.Item.SKU, err)
	}
	return err
}

// free returns the number of a unit in the pool, by a plain read. It returns ErrSoldOut if the pool
// is empty.
func (s Sale) free(tx *gorm.DB) (unit int64, err error) {
	rows, last, err := s.pool().Size(tx)
	if err == nil && rows == 0 {
		err = ErrSoldOut
	}
	return last, err
}
