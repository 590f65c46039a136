package holdsale

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"gorm.io/gorm"
)

// withSeams returns a database whose writes pass the seams. Its connections are those of db.
// It must be closed before db.
func withSeams(db *sql.DB, s *seams) *sql.DB {
	pool := sql.OpenDB(connector{db, s})
	if most := db.Stats().MaxOpenConnections; most > 0 {
		most = max(1, most*3/4) // the rest is for the rest of the shop
		pool.SetMaxOpenConns(most)
		pool.SetMaxIdleConns(most)
	}
	return pool
}

// quietWrites makes the statements that a service writes by itself writes as those of its
// stages are: a process that is stopped at a quiet seam keeps no lock of them.
func quietWrites(db *gorm.DB, s *seams) error {
	raw := db.Callback().Raw()
	return errors.Join(
		raw.Before("gorm:raw").Register("seams:begin", func(*gorm.DB) { s.writing.RLock() }),
		raw.After("gorm:raw").Register("seams:end", func(*gorm.DB) { s.writing.RUnlock() }),
	)
}

type connector struct {
	db    *sql.DB
	seams *seams
}

func (c connector) Driver() driver.Driver { return c.db.Driver() }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, seams: c.seams}, nil
}

// conn is a connection of another pool. Package sql uses it from one goroutine at a time.
type conn struct {
	*sql.Conn
	seams  *seams
	inTx   bool
	broken bool
}

// raw calls f with the driver's connection.
func raw[T any](c *conn, f func(inner any) (T, error)) (v T, err error) {
	rawErr := c.Raw(func(inner any) error {
		v, err = f(inner)
		return err // so that a broken connection is not used again
	})
	if err == nil {
		err = rawErr
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		c.broken = true
		err = driver.ErrBadConn
	}
	return v, err
}

// IsValid is part of driver.Validator.
func (c *conn) IsValid() bool { return !c.broken }

// ResetSession is part of driver.SessionResetter.
func (c *conn) ResetSession(context.Context) error {
	if c.broken {
		return driver.ErrBadConn
	}
	return nil
}

// Prepare is part of driver.Conn.
func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// PrepareContext is part of driver.ConnPrepareContext.
func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, err := raw(c, func(inner any) (driver.Stmt, error) {
		return inner.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	})
	if err != nil {
		return nil, err
	}
	return &statement{inner, c, query}, nil
}

// Begin is part of driver.Conn, and is not used.
func (c *conn) Begin() (driver.Tx, error) { return nil, errors.New("use BeginTx") }

// BeginTx is part of driver.ConnBeginTx.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	c.seams.begins(ctx, "BEGIN")
	c.seams.writing.RLock()
	inner, err := raw(c, func(inner any) (driver.Tx, error) {
		return inner.(driver.ConnBeginTx).BeginTx(ctx, o)
	})
	if err != nil {
		c.seams.writing.RUnlock()
		return nil, err
	}
	c.inTx = true
	return tx{inner, c}, nil
}

// tx is a transaction. Its end is the end of the write.
type tx struct {
	driver.Tx
	conn *conn
}

// Commit is part of driver.Tx.
func (t tx) Commit() error {
	defer t.ended()
	return t.Tx.Commit()
}

// Rollback is part of driver.Tx.
func (t tx) Rollback() error {
	defer t.ended()
	return t.Tx.Rollback()
}

func (t tx) ended() {
	t.conn.inTx = false
	t.conn.seams.writing.RUnlock()
}

// statement is a prepared statement whose execution passes the seams.
type statement struct {
	driver.Stmt
	conn  *conn
	query string
}

// ExecContext is part of driver.StmtExecContext.
func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.conn.seams.begins(ctx, s.query)
	res, err := s.exec(ctx, args)
	if err == nil && changed(res) {
		s.conn.seams.done(ctx, s.query)
	}
	return res, err
}

func (s *statement) exec(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if !s.conn.inTx {
		s.conn.seams.writing.RLock()
		defer s.conn.seams.writing.RUnlock()
	}
	return raw(s.conn, func(any) (driver.Result, error) {
		return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
	})
}

// changed reports whether a statement has changed a row.
func changed(res driver.Result) bool {
	n, err := res.RowsAffected()
	return err == nil && n > 0
}

// QueryContext is part of driver.StmtQueryContext.
func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return raw(s.conn, func(any) (driver.Rows, error) {
		return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
	})
}

// Exec is part of driver.Stmt, and is not used.
func (s *statement) Exec([]driver.Value) (driver.Result, error) {
	return nil, errors.New("use ExecContext")
}
