package holdstest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
)

// Action is what happens to a statement. It calls send to have the database execute it,
// and returns the caller's result. It is as locktest.Action is for Redis.
type Action = func(ctx context.Context, send func() error) error

// SQLHook decides what happens to statements, and to BEGIN, COMMIT and ROLLBACK, which it
// sees by these names. The zero SQLHook lets everything through. It is safe for concurrent
// use.
type SQLHook struct {
	mu    sync.Mutex
	match func(statement string) bool
	then  Action
}

// On applies then to every statement that matches, until the next call. A nil match ends it.
func (h *SQLHook) On(match func(statement string) bool, then Action) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.match, h.then = match, then
}

func (h *SQLHook) do(ctx context.Context, statement string, send func() error) error {
	h.mu.Lock()
	match, then := h.match, h.then
	h.mu.Unlock()
	if match == nil || !match(statement) {
		return send()
	}
	return then(ctx, send)
}

// WithHook returns a database whose statements pass through the hook. Its connections are
// those of db.
func WithHook(db *sql.DB, hook *SQLHook) *sql.DB {
	pool := sql.OpenDB(connector{db, hook})
	if most := db.Stats().MaxOpenConnections; most > 0 {
		pool.SetMaxOpenConns(max(1, most-1)) // one is left for the test
		pool.SetMaxIdleConns(max(1, most/2))
	}
	return pool
}

type connector struct {
	db   *sql.DB
	hook *SQLHook
}

func (c connector) Driver() driver.Driver { return c.db.Driver() }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{inner, c.hook}, nil
}

// conn is a connection of another pool.
type conn struct {
	*sql.Conn
	hook *SQLHook
}

// raw calls f with the driver's connection.
func raw[T any](c *conn, f func(inner any) (T, error)) (v T, err error) {
	rawErr := c.Raw(func(inner any) error {
		v, err = f(inner)
		return nil
	})
	return v, errors.Join(err, rawErr)
}

// hooked calls f through the hook.
func hooked[T any](ctx context.Context, c *conn, statement string, f func(inner any) (T, error)) (v T, err error) {
	err = c.hook.do(ctx, statement, func() error {
		var err error
		v, err = raw(c, f)
		return unwrapped(err)
	})
	return v, err
}

// unwrapped is the error itself if it is one that package sql compares with.
func unwrapped(err error) error {
	for _, special := range []error{driver.ErrSkip, driver.ErrBadConn} {
		if errors.Is(err, special) {
			return special
		}
	}
	return err
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, err := raw(c, func(inner any) (driver.Stmt, error) {
		return inner.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	})
	return &statement{inner, c, query}, unwrapped(err)
}

func (c *conn) Begin() (driver.Tx, error) { return nil, errors.New("use BeginTx") }

func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	inner, err := hooked(ctx, c, "BEGIN", func(inner any) (driver.Tx, error) {
		return inner.(driver.ConnBeginTx).BeginTx(ctx, o)
	})
	if err != nil {
		return nil, err
	}
	return tx{inner, c.hook}, nil
}

// ExecContext leaves statements with arguments to PrepareContext.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return nil, driver.ErrSkip
}

// tx is a transaction whose end passes through the hook.
type tx struct {
	driver.Tx
	hook *SQLHook
}

// Commit rolls back if the COMMIT was never sent, as a server does when a connection breaks.
func (t tx) Commit() error {
	sent := false
	err := t.hook.do(context.Background(), "COMMIT", func() error {
		sent = true
		return t.Tx.Commit()
	})
	if !sent {
		err = errors.Join(err, t.Tx.Rollback())
	}
	return err
}

func (t tx) Rollback() error { return t.hook.do(context.Background(), "ROLLBACK", t.Tx.Rollback) }

// statement is a prepared statement whose execution passes through the hook.
type statement struct {
	driver.Stmt
	conn  *conn
	query string
}

func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return hooked(ctx, s.conn, s.query, func(any) (driver.Result, error) {
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return hooked(ctx, s.conn, s.query, func(any) (driver.Rows, error) {
		return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	})
}

// Exec is part of driver.Stmt, and is not used.
func (s *statement) Exec([]driver.Value) (driver.Result, error) {
	return nil, fmt.Errorf("use ExecContext")
}
