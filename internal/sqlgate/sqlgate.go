// Package sqlgate stands between a program and its database: each statement, and each
// begin and end of a transaction, passes a Handler, which may delay it, refuse it, or lose
// its reply. It works with every driver of database/sql that takes contexts.
package sqlgate

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A Statement is what the program sends.
type Statement struct {
	Text string // in SQL; or Begin, Commit or Rollback
	Args []driver.Value
}

// The statements that begin and end a transaction.
const (
	Begin    = "BEGIN"
	Commit   = "COMMIT"
	Rollback = "ROLLBACK"
)

// Reply is what the database answered.
type Reply struct {
	Rows    [][]driver.Value // of a query
	Changed int64            // by a statement that is no query
	Query   bool
	Tx      bool // to the begin or the end of a transaction
}

// String shows a reply on one line. A time is a Unix time in milliseconds.
func (r Reply) String() string {
	switch {
	case r.Tx:
		return "ok"
	case r.Query && len(r.Rows) == 1:
		return values(r.Rows[0])
	case r.Query:
		return count(int64(len(r.Rows)), "row", "rows")
	}
	return count(r.Changed, "row changed", "rows changed")
}

func count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func values(row []driver.Value) string {
	var words []string
	for _, v := range row {
		switch of := v.(type) {
		case []byte:
			v = string(of)
		case time.Time:
			v = of.UnixMilli()
		}
		words = append(words, fmt.Sprint(v))
	}
	return strings.Join(words, ", ")
}

// A Handler decides what happens to a statement. It calls send once, to let the database
// execute it, or not at all. The program gets the handler's error; without one it gets the
// reply. An error that wraps driver.ErrBadConn closes the connection.
type Handler func(ctx context.Context, s Statement, send func() (Reply, error)) error

// Connector returns a connector whose connections pass the handler. A statement is changed
// by rewrite before anything else, if that is not nil: so a test puts a fault into a program.
func Connector(inner driver.Connector, handle Handler, rewrite func(text string) string) driver.Connector {
	if rewrite == nil {
		rewrite = func(text string) string { return text }
	}
	return connector{inner, handle, rewrite}
}

type connector struct {
	driver.Connector
	handle  Handler
	rewrite func(text string) string
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	inner, ok := conn.(fullConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver's %T takes no context", conn), conn.Close())
	}
	return &gated{inner: inner, handle: c.handle, rewrite: c.rewrite}, nil
}

// fullConn is what the drivers of this project implement. Statements are always prepared,
// so that there is one place where they pass.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
}

// gated is a connection that passes the handler.
type gated struct {
	inner   fullConn
	handle  Handler
	rewrite func(text string) string
	broken  bool // database/sql uses a connection from one goroutine at a time
}

func (c *gated) Close() error { return c.inner.Close() }

// Ping is no statement of the program.
func (c *gated) Ping(ctx context.Context) error {
	if p, ok := c.inner.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// ResetSession and IsValid are asked before a connection is used again.
func (c *gated) ResetSession(ctx context.Context) error {
	if r, ok := c.inner.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid reports whether the connection may be used again.
func (c *gated) IsValid() bool {
	v, ok := c.inner.(driver.Validator)
	return !c.broken && (!ok || v.IsValid())
}

// Prepare is never called by database/sql, which calls PrepareContext.
func (c *gated) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

// Begin is never called by database/sql, which calls BeginTx.
func (c *gated) Begin() (driver.Tx, error) {
	return c.BeginTx(context.Background(), driver.TxOptions{})
}

// pass lets a statement pass the handler.
func (c *gated) pass(ctx context.Context, s Statement, send func() (Reply, error)) error {
	if c.broken {
		return ErrBroken
	}
	err := c.handle(ctx, s, send)
	if errors.Is(err, ErrBroken) {
		c.broken = true
	}
	return err
}

// ErrBroken is a connection that broke. Database/sql does not repeat the statement, because
// the database may have executed it.
var ErrBroken = errors.New("the connection to the database broke")

func (c *gated) BeginTx(ctx context.Context, opts driver.TxOptions) (tx driver.Tx, err error) {
	err = c.pass(ctx, Statement{Text: Begin}, func() (Reply, error) {
		inner, err := c.inner.BeginTx(ctx, opts)
		tx = gatedTx{c, inner, ctx}
		return Reply{Tx: true}, err
	})
	return tx, err
}

type gatedTx struct {
	c     *gated
	inner driver.Tx
	ctx   context.Context
}

func (t gatedTx) Commit() error   { return t.end(Commit, t.inner.Commit) }
func (t gatedTx) Rollback() error { return t.end(Rollback, t.inner.Rollback) }

func (t gatedTx) end(how string, end func() error) error {
	return t.c.pass(context.WithoutCancel(t.ctx), Statement{Text: how}, func() (Reply, error) { return Reply{Tx: true}, end() })
}

func (c *gated) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.broken {
		return nil, ErrBroken
	}
	query = c.rewrite(query)
	stmt, err := c.inner.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	inner, ok := stmt.(fullStmt)
	if !ok {
		return nil, errors.Join(fmt.Errorf("the driver's %T takes no context", stmt), stmt.Close())
	}
	return gatedStmt{inner, c, query}, nil
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type gatedStmt struct {
	fullStmt
	c    *gated
	text string
}

// CheckNamedValue converts an argument as the driver does.
func (s gatedStmt) CheckNamedValue(v *driver.NamedValue) error {
	if c, ok := s.fullStmt.(driver.NamedValueChecker); ok {
		return c.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (s gatedStmt) statement(args []driver.NamedValue) Statement {
	out := Statement{Text: s.text}
	for _, a := range args {
		out.Args = append(out.Args, a.Value)
	}
	return out
}

func (s gatedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (done driver.Result, err error) {
	err = s.c.pass(ctx, s.statement(args), func() (Reply, error) {
		if done, err = s.fullStmt.ExecContext(ctx, args); err != nil {
			return Reply{}, err
		}
		n, err := done.RowsAffected()
		return Reply{Changed: n}, err
	})
	return done, err
}

// QueryContext reads all rows before the program gets the first, so that the reply is one
// step.
func (s gatedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	read := &rows{}
	err := s.c.pass(ctx, s.statement(args), func() (Reply, error) {
		inner, err := s.fullStmt.QueryContext(ctx, args)
		if err != nil {
			return Reply{}, err
		}
		if err := read.fill(inner); err != nil {
			return Reply{}, err
		}
		return Reply{Rows: slices.Clone(read.left), Query: true}, nil
	})
	if err != nil {
		return nil, err
	}
	return read, nil
}

// rows are rows that were read.
type rows struct {
	columns []string
	left    [][]driver.Value
}

func (r *rows) fill(from driver.Rows) (err error) {
	defer func() { err = errors.Join(err, from.Close()) }()
	r.columns = from.Columns()
	for {
		row := make([]driver.Value, len(r.columns))
		if err := from.Next(row); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		for i, v := range row {
			if b, ok := v.([]byte); ok {
				row[i] = slices.Clone(b) // the driver may use the memory again
			}
		}
		r.left = append(r.left, row)
	}
}

func (r *rows) Columns() []string { return r.columns }
func (r *rows) Close() error      { return nil }

func (r *rows) Next(into []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(into, r.left[0])
	r.left = r.left[1:]
	return nil
}
