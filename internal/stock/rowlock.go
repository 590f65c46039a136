package stock

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"golang.org/x/sync/semaphore"
	"gorm.io/gorm"

	"oversell/internal/guard"
)

// RowLocked returns a Guard that locks the item's row: SELECT … FOR UPDATE locks the row until the
// transaction ends, and the section runs in the transaction. If the process crashes, the server
// rolls the transaction back. If the process is merely stopped, it keeps the row locked for as long
// as its connection lasts.
//
// A transaction that the server rolls back because of a deadlock or a lock wait timeout
// is tried again.
//
// The buyers of this process wait for the row one at a time. A statement whose caller has left goes
// on waiting at the server, so buyers that come and give up would use up the connections.
func RowLocked(db *gorm.DB, slots *semaphore.Weighted) Guard {
	return &repeated{slots: slots, unusable: needsMySQL(db, "SELECT … FOR UPDATE"), inTurn: new(guard.KeyedMutex),
		once: func(ctx, wait context.Context, at Location, section Section) error {
			r := &rowLocked{ledger: ledger{store: store{db}, at: at}}
			err := db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
				r.tx = tx
				if err := r.lock(wait); err != nil {
					return err
				}
				return section(ctx, r)
			})
			if r.order == nil && !Retryable(err) {
				return err // nothing was written
			}
			return r.outcome(ctx, ctx, r.order, err)
		}}
}

// rowLocked is a ledger within a transaction that began before the section and is
// committed after it.
type rowLocked struct {
	ledger // for statements outside the transaction
	tx     *gorm.DB
	item   Item   // as read when its row was locked
	order  *Order // the order that the transaction writes
}

// lock locks the item's row and reads it. It stops waiting for the row when wait ends.
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

// Get returns what lock has read. The row is locked, so it cannot have changed since.
func (r *rowLocked) Get(context.Context) (int64, error) { return r.item.Remaining, nil }

// sell writes the order first. If an order with its idempotency key exists, nothing was written,
// and committing the transaction does no harm.
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
	return r.update(tx, left, nil)
}

// NameLocked returns a Guard that uses a named lock of the database server, GET_LOCK. The lock
// belongs to a connection, and is released when the connection ends. Therefore the section's
// statements go through the same connection: a holder that has lost its connection, and with it the
// lock, cannot write.
//
// In a cluster such as Galera each server has its own locks.
//
// The buyers of this process wait for the lock one at a time; see RowLocked.
func NameLocked(db *gorm.DB, slots *semaphore.Weighted) Guard {
	return &repeated{slots: slots, unusable: needsMySQL(db, "GET_LOCK"), inTurn: new(guard.KeyedMutex),
		once: func(ctx, wait context.Context, at Location, section Section) error {
			return db.WithContext(ctx).Connection(func(conn *gorm.DB) error {
				// The name is unique for each sale of an item. Servers allow 64 characters.
				sum := sha256.Sum256([]byte(at.SKU + " " + at.SaleID))
				name := fmt.Sprintf("oversell:%x", sum[:16])
				if err := getLock(wait, conn, name); err != nil {
					return err
				}
				err := section(ctx, ledger{store: store{db}, at: at, conn: conn})
				return errors.Join(err, releaseLock(ctx, conn, name))
			})
		}}
}

// lockWaitSeconds is how long one GET_LOCK waits. A server waits no longer than that for a caller
// that has left.
const lockWaitSeconds = 2

// getLock waits for the lock until wait ends. If a statement is interrupted, its connection is
// closed, which releases the lock in case it had just been acquired.
func getLock(wait context.Context, conn *gorm.DB, name string) error {
	for {
		var got sql.NullInt64
		err := conn.WithContext(wait).Raw("SELECT GET_LOCK(?, ?)", name, lockWaitSeconds).Scan(&got).Error
		switch {
		case wait.Err() != nil:
			return errors.Join(context.Cause(wait), abandon(conn))
		case err != nil:
			return fmt.Errorf("asking for the lock: %w", err)
		case !got.Valid:
			return errors.New("asking for the lock: GET_LOCK returned NULL")
		case got.Int64 == 1:
			return nil
		}
	}
}

// releaseLock releases the lock, if necessary by closing the connection.
func releaseLock(ctx context.Context, conn *gorm.DB, name string) error {
	ctx, cancel := context.WithTimeout(ctx, dbTimeout)
	defer cancel()
	var released sql.NullInt64
	err := conn.WithContext(ctx).Raw("SELECT RELEASE_LOCK(?)", name).Scan(&released).Error
	if err == nil && released.Int64 == 1 {
		return nil
	}
	return abandon(conn)
}

// abandon closes the connection, which releases its locks.
func abandon(conn *gorm.DB) error {
	pinned, ok := conn.Statement.ConnPool.(*sql.Conn)
	if !ok {
		return fmt.Errorf("closing a connection: it is a %T", conn.Statement.ConnPool)
	}
	err := pinned.Raw(func(any) error { return driver.ErrBadConn })
	if err == nil || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return fmt.Errorf("closing a connection: %w", err)
}

// HalfOfPool returns slots for half of the connections in the pool. Holders and waiters use these;
// the other half is for reading items and writing orders.
func HalfOfPool(db *gorm.DB) *semaphore.Weighted {
	const unlimited = 16
	n := unlimited
	if pool, err := db.DB(); err == nil && pool.Stats().MaxOpenConnections > 0 {
		n = max(1, pool.Stats().MaxOpenConnections/2)
	}
	return semaphore.NewWeighted(int64(n))
}
