package stock

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"gorm.io/gorm"
)

// NameLocked guards by a named lock of the database server, GET_LOCK. The lock belongs
// to a connection, and is released when that ends. Therefore the section's statements go
// through the same connection: a holder that has lost its connection, and with it the
// lock, cannot write.
//
// In a cluster such as Galera each server has its own locks.
//
// The buyers of this process wait for the lock one at a time; see RowLocked.
func NameLocked(db *gorm.DB, s Slots) Guard {
	return &oneByOne{inner: &repeated{s, needsMySQL(db, "GET_LOCK"), func(ctx, wait context.Context, _ *place, at Location, section Section) error {
		return db.WithContext(ctx).Connection(func(conn *gorm.DB) error {
			name := lockName(at)
			if err := getLock(wait, conn, name); err != nil {
				return err
			}
			err := section(ctx, ledger{store: store{db}, at: at, conn: conn})
			return errors.Join(err, releaseLock(ctx, conn, name))
		})
	}}}
}

// lockName is unique for each sale of an item. Servers allow 64 characters.
func lockName(at Location) string {
	sum := sha256.Sum256([]byte(at.SKU + " " + at.SaleID))
	return fmt.Sprintf("oversell:%x", sum[:16])
}

// lockWaitSeconds is how long one GET_LOCK waits, and so the longest that the server
// waits for a caller that has left.
const lockWaitSeconds = 2

// getLock waits for the lock until wait ends. A statement that is cut off costs its
// connection, and with it the lock, if it had just been acquired.
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
