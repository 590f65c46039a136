package stock

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"oversell/internal/locks"
)

// RowLocked returns the Guard that has the database keep others out: SELECT …
// FOR UPDATE locks the item's row until the transaction ends, and the section is
// a part of that. A process that dies has its transaction undone by the server;
// one that is stopped keeps the row for as long as its connection lasts, and with
// it everybody else out.
//
// What the server undoes, for a deadlock or a wait for the row that was too long
// for it, is tried again.
//
// In this process the buyers of a sale stand in line for the row. A statement whose
// caller has gone goes on waiting at the server, and so a crowd that comes and goes
// would take connection after connection.
func RowLocked(db *gorm.DB, a attempts) Guard {
	place := func(at Place) error { return errors.Join(inDatabase(at), needsMySQL(db, "SELECT … FOR UPDATE")) }
	return inLine(newRepeated(a, place, func(ctx context.Context, at Place, e locks.Entry, section Section) error {
		ctx = context.WithoutCancel(ctx)
		r := &rowLocked{ledger: ledger{store: store{db}, at: at}}
		err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
			r.tx = tx
			if err := r.lock(e.Wait); err != nil {
				return err
			}
			return section(ctx, r)
		})
		if r.order == nil && !crossed(err) {
			return err // nothing was written
		}
		return r.outcome(ctx, ctx, r.order, err)
	}))
}

// rowLocked is a ledger within a transaction that began before the section and
// is committed after it.
type rowLocked struct {
	ledger // outside of the transaction
	tx     *gorm.DB
	item   Item   // as it was when its row was locked
	order  *Order // that is there once the transaction is committed
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

// Get returns what was read with the lock, and nobody can have changed.
func (r *rowLocked) Get(context.Context) (int64, error) { return r.item.Remaining, nil }

// sell writes the order first. If there is one with its idempotency key already,
// nothing has been written, and the transaction may be committed all the same.
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
