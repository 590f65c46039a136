package stock

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// seller is a Counter that writes the stock and the order together: both are
// there, or neither. It returns errConflict or ErrFenced as Set does, and
// otherwise as store.insert does.
type seller interface {
	Counter
	sell(ctx context.Context, left int64, order *Order) error
}

// ledger is the stock of a sale that is kept in the database, in the item's row.
// It is read by SELECT and written by UPDATE: a guard must keep others out.
type ledger struct {
	store
	at   Place
	conn *gorm.DB // that all statements go through; nil: any
}

// on is the store by way of the ledger's own connection.
func (l ledger) on() store {
	if l.conn == nil {
		return l.store
	}
	return store{l.conn}
}

func (l ledger) Get(ctx context.Context) (int64, error) {
	item, err := l.current(ctx)
	return item.Remaining, err
}

// current reads the item, of which the sale must still be on.
func (l ledger) current(ctx context.Context) (Item, error) {
	item, err := l.on().item(ctx, l.at.SKU)
	if err == nil && (item.SaleID != l.at.SaleID || item.Generation != l.at.Generation) {
		err = fmt.Errorf("reading the stock: %w", errOtherSale)
	}
	return item, err
}

func (l ledger) Set(ctx context.Context, left int64) error { return l.sell(ctx, left, nil) }

func (l ledger) sell(ctx context.Context, left int64, order *Order) error {
	return l.commit(ctx, order, func(tx *gorm.DB) error {
		return l.update(tx, map[string]any{"remaining": left}, nil)
	})
}

// row selects the item's row, as long as the sale is on.
func (l ledger) row(tx *gorm.DB) *gorm.DB {
	return tx.Model(&Item{}).Where("sku = ? AND sale_id = ? AND generation = ?", l.at.SKU, l.at.SaleID, l.at.Generation)
}

// update writes columns of the item's row. It returns errOtherSale if the sale is
// over. If it is not, but the row is not one that only selects, it returns what
// refused makes of the row as it is. Every write counts the version on, also for
// the sake of MySQL, for which a row that is written as it was is none.
func (l ledger) update(tx *gorm.DB, columns map[string]any, refused func(Item) error, only ...func(*gorm.DB) *gorm.DB) error {
	columns["version"] = gorm.Expr("version + 1")
	done := l.row(tx).Scopes(only...).UpdateColumns(columns)
	if done.Error != nil {
		return fmt.Errorf("writing the stock: %w", done.Error)
	}
	if done.RowsAffected > 0 {
		return nil
	}
	var now Item
	// Locked, for otherwise a transaction may see what was before it began.
	err := l.row(tx).Clauses(lockRow(tx)...).Take(&now).Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		err = errOtherSale
	case err == nil && refused != nil:
		err = refused(now)
	case err == nil:
		err = errConflict
	}
	return fmt.Errorf("writing the stock: %w", err)
}

// lockRow has a SELECT lock its row, where the database knows such a thing. SQLite
// has one writer at a time, and does not need it.
func lockRow(db *gorm.DB) []clause.Expression {
	if db.Name() != "mysql" {
		return nil
	}
	return []clause.Expression{clause.Locking{Strength: clause.LockingStrengthUpdate}}
}

// fencedLedger is a ledger that turns away a holder after whom another one was
// here. It checks the token where the row is written: in the WHERE.
type fencedLedger struct {
	ledger
	fence
}

// Get shows the token before it reads; see fencedCounter for why.
func (l fencedLedger) Get(ctx context.Context) (int64, error) {
	if err := l.raise(ctx); err != nil {
		return 0, err
	}
	item, err := l.current(ctx)
	if err == nil && (item.FenceOf != l.of || item.Fence > l.token) {
		err = fmt.Errorf("reading the stock with token %d: %w", l.token, ErrFenced)
	}
	return item.Remaining, err
}

// raise makes the token the largest that was seen, unless a larger one was of the
// same lock.
func (l fencedLedger) raise(ctx context.Context) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	err := l.row(l.on().db.WithContext(ctx)).Where("fence_of <> ? OR fence < ?", l.of, l.token).
		UpdateColumns(map[string]any{"fence_of": l.of, "fence": l.token}).Error
	if err != nil {
		return fmt.Errorf("raising the fence: %w", err)
	}
	return nil
}

func (l fencedLedger) Set(ctx context.Context, left int64) error { return l.sell(ctx, left, nil) }

func (l fencedLedger) sell(ctx context.Context, left int64, order *Order) error {
	return l.commit(ctx, order, func(tx *gorm.DB) error {
		notLater := func(tx *gorm.DB) *gorm.DB { return tx.Where("fence_of = ? AND fence <= ?", l.of, l.token) }
		late := func(Item) error { return ErrFenced }
		return l.update(tx, map[string]any{"remaining": left}, late, notLater)
	})
}

// maxCrossed is how often a transaction is tried that was in another's way.
const maxCrossed = 5

// commit takes the units and writes the order, if there is one, in one
// transaction. Take's errors come back as they are. A transaction that the
// database undid because it was in another's way is repeated at once.
func (l ledger) commit(ctx context.Context, order *Order, take func(tx *gorm.DB) error) error {
	tctx, cancel := limited(ctx)
	defer cancel()
	var err error
	for range maxCrossed {
		err = l.on().db.WithContext(tctx).Transaction(func(tx *gorm.DB) error {
			if err := take(tx); err != nil || order == nil {
				return err
			}
			return tx.Create(order).Error
		})
		if !crossed(err) {
			break
		}
	}
	return l.outcome(ctx, tctx, order, err)
}

// refused reports whether err says that a transaction took nothing because the
// stock did not allow it. Such an outcome is known.
func refused(err error) bool {
	for _, known := range []error{errConflict, ErrFenced, ErrSoldOut, errOtherSale} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
