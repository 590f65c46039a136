package stock

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"oversell/internal/locks"
)

// NameLocked returns the Guard that takes a lock with a name at the database:
// GET_LOCK. It belongs to a connection, and is free as soon as that ends. So the
// section's statements go through the same one: a holder whose connection broke,
// and who has lost the lock with it, cannot write.
//
// The servers of a cluster, such as Galera, each have locks of their own.
//
// In this process the buyers of a sale stand in line for it; see RowLocked.
func NameLocked(db *gorm.DB, a attempts) Guard {
	place := func(at Place) error { return errors.Join(inDatabase(at), needsMySQL(db, "GET_LOCK")) }
	return inLine(newRepeated(a, place, func(ctx context.Context, at Place, e locks.Entry, section Section) error {
		ctx = context.WithoutCancel(ctx)
		return db.WithContext(ctx).Connection(func(conn *gorm.DB) error {
			name := lockName(at)
			if err := getLock(e.Wait, conn, name); err != nil {
				return err
			}
			err := section(ctx, ledger{store: store{db}, at: at, conn: conn})
			return errors.Join(err, releaseLock(ctx, conn, name))
		})
	}))
}

// lockName is as unique as what it is made of. Servers allow 64 characters.
func lockName(at Place) string {
	sum := sha256.Sum256([]byte(at.SKU + " " + at.SaleID))
	return fmt.Sprintf("oversell:%x", sum[:16])
}

// lockPatience is for how many seconds the server waits for a lock before it is
// asked again, and at most waits in vain for a caller who has gone.
const lockPatience = 2

// getLock waits for the lock until wait ends. A statement that is cut off takes
// its connection along, and the lock, should it have been had.
func getLock(wait context.Context, conn *gorm.DB, name string) error {
	for {
		var got sql.NullInt64
		err := conn.WithContext(wait).Raw("SELECT GET_LOCK(?, ?)", name, lockPatience).Scan(&got).Error
		switch {
		case wait.Err() != nil:
			return errors.Join(context.Cause(wait), abandon(conn))
		case err != nil:
			return fmt.Errorf("asking for the lock: %w", err)
		case !got.Valid:
			return errors.New("asking for the lock: the server gave none, and does not say why")
		case got.Int64 == 1:
			return nil
		}
	}
}

// releaseLock gives the lock back, if need be by closing the connection.
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

// abandon takes the connection out of the pool, which ends all it holds.
func abandon(conn *gorm.DB) error {
	pinned, ok := conn.Statement.ConnPool.(*sql.Conn)
	if !ok {
		return fmt.Errorf("giving up a connection: it is a %T", conn.Statement.ConnPool)
	}
	err := pinned.Raw(func(any) error { return driver.ErrBadConn })
	if err == nil || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return fmt.Errorf("giving up a connection: %w", err)
}
