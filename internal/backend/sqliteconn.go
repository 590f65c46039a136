package backend

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/glebarez/go-sqlite"
)

// sqliteConnector opens connections to an SQLite file. While another connection is writing, a connection
// waits in Go code. SQLite's own wait ignores the caller's context and is unfair: it retries only every 100
// ms, and may fail to get the lock for many seconds while other connections write one after another.
//
// It implements driver.Connector.
type sqliteConnector struct {
	driver driver.Driver
	dsn    string
}

// newSQLiteConnector returns a connector with the driver that is registered with package sql,
// because custom functions are registered with that driver.
func newSQLiteConnector(dsn string) (*sqliteConnector, error) {
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	return &sqliteConnector{driver: db.Driver(), dsn: dsn}, db.Close()
}

func (c *sqliteConnector) Driver() driver.Driver { return c.driver }

func (c *sqliteConnector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil {
		return nil, err
	}
	return waitingConn{conn.(contextConn)}, nil
}

// sqliteStmt is the set of interfaces that the driver's statements implement.
type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// waitingConn retries statements that fail because another connection is writing. Retrying is safe,
// because a statement that failed with SQLITE_BUSY has done nothing.
type waitingConn struct{ contextConn }

func (c waitingConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return whenFree(ctx, func() (driver.Tx, error) { return c.contextConn.BeginTx(ctx, opts) })
}

func (c waitingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return whenFree(ctx, func() (driver.Result, error) { return c.contextConn.ExecContext(ctx, query, args) })
}

func (c waitingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return whenFree(ctx, func() (driver.Rows, error) { return c.contextConn.QueryContext(ctx, query, args) })
}

func (c waitingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.contextConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return waitingStmt{stmt.(sqliteStmt)}, nil
}

// waitingStmt is like waitingConn, but for a prepared statement.
type waitingStmt struct{ sqliteStmt }

func (s waitingStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return whenFree(ctx, func() (driver.Result, error) { return s.sqliteStmt.ExecContext(ctx, args) })
}

func (s waitingStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return whenFree(ctx, func() (driver.Rows, error) { return s.sqliteStmt.QueryContext(ctx, args) })
}

// busyLimit limits the wait if the caller's context does not.
const busyLimit = 10 * time.Second

// whenFree calls f again while its error says that the file is busy, until busyLimit has passed or
// ctx ends. It returns the error of f. If ctx has ended, the returned error also wraps that of ctx.
func whenFree[T any](ctx context.Context, f func() (T, error)) (T, error) {
	limit := time.Now().Add(busyLimit)
	for {
		v, err := f()
		if !isBusy(err) || time.Now().After(limit) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("%w while waiting to write: %w", ctx.Err(), err)
		case <-time.After(200*time.Microsecond + rand.N(800*time.Microsecond)):
			// A random pause, about as long as a short transaction. The gap between two transactions is brief,
			// but a writer that retries often, and out of step with the other writers, soon hits a gap.
		}
	}
}

// isBusy reports whether err means that the file is busy, so that waiting and retrying helps.
// Retrying does not help a transaction that wants to write after the data that it read has changed;
// that error has a different code.
func isBusy(err error) bool {
	const busy, busyRecovery = 5, 5 | 1<<8 // SQLITE_BUSY, SQLITE_BUSY_RECOVERY
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == busy || e.Code() == busyRecovery)
}
