package stock

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// RowLocked guards by a lock on the item's row: SELECT … FOR UPDATE locks the row until
// the transaction ends, and the section runs in the transaction. If the process crashes,
// the server rolls the transaction back. If the process is stopped, it keeps the row, and
// everybody else out, for as long as its connection lasts.
//
// A transaction that the server rolls back because of a deadlock or a lock wait timeout
// is tried again.
//
// The buyers of this process wait for the row one at a time. A statement whose caller has
// left goes on waiting at the server, so a crowd that comes and goes would use up the
// connections.
func RowLocked(db *gorm.DB, s Slots) Guard {
	return &oneByOne{inner: &repeated{s, needsMySQL(db, "SELECT … FOR UPDATE"), func(ctx, wait context.Context, _ *place, at Location, section Section) error {
		r := &rowLocked{ledger: ledger{store: store{db}, at: at}}
		err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			r.tx = tx
			if err := r.lock(wait); err != nil {
				return err
			}
			return section(ctx, r)
		})
		if r.order == nil && !retryable(err) {
			return err // nothing was written
		}
		return r.outcome(ctx, ctx, r.order, err)
	}}}
}

// rowLocked is a ledger within a transaction that began before the section and is
// committed after it.
type rowLocked struct {
	ledger // outside of the transaction
	tx     *gorm.DB
	item   Item   // as it was when its row was locked
	order  *Order // the order that the transaction writes
}

// lock waits for the row until wait ends.
func (r *rowLocked) lock(wait context.Context) error {
	err := r.row(r.tx.WithContext(wait)).Clauses(lockRow(r.tx)...).Take(&r.item).Error
	switch {
	case err == nil:
		return nil
	case wait.Err() != nil:
		return context.Cause(wait)
	case errors.Is(err, gorm.ErrRecordNotFound):
		err = errOtherSale
	}
	return fmt.Errorf("locking the item's row: %w", err)
}

// Get returns what lock has read. Nobody can have changed it since.
func (r *rowLocked) Get(context.Context) (int64, error) { return r.item.Remaining, nil }

// sell writes the order first. If an order with its idempotency key exists, nothing was
// written, and it does no harm that the transaction is committed.
func (r *rowLocked) sell(ctx context.Context, left int64, order *Order) error {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	tx := r.tx.WithContext(ctx)
	err := tx.Create(order).Error
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		return errDuplicate
	}
	if err != nil {
		return fmt.Errorf("writing order %s: %w", order.ID, err)
	}
	r.order = order
	return r.update(tx, map[string]any{"remaining": left}, nil)
}
