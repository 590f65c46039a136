package fault

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

// A Statement is an SQL statement that the program sends.
type Statement struct {
	Text string // SQL text, or Begin, Commit or Rollback
	Args []driver.Value
	InTx bool // the connection is in a transaction
}

// Reads reports whether the statement is a query that changes nothing.
func (s Statement) Reads() bool { return strings.HasPrefix(s.Text, "SELECT") }

// The statements that begin and end a transaction.
const (
	Begin    = "BEGIN"
	Commit   = "COMMIT"
	Rollback = "ROLLBACK"
)

// Reply is the database's answer.
type Reply struct {
	Rows    [][]driver.Value // the result of a query
	Changed int64            // number of rows that a statement other than a query changed
	Query   bool
	Tx      bool // it is the reply to BEGIN, COMMIT or ROLLBACK
}

// String returns the reply on one line. It shows a time as a Unix time in milliseconds.
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

// A Hook decides what happens to a statement. It calls send at most once; send lets the database
// execute the statement. If the hook returns an error, the program gets it instead of the reply.
// An error that wraps ErrBroken closes the connection.
type Hook func(ctx context.Context, s Statement, send func() (Reply, error)) error

// ErrBroken means that the connection broke. Package database/sql does not repeat the statement,
// because the database may have executed it.
var ErrBroken = errors.New("the connection to the database broke")

// An Injector puts a hook into the connections to a database. Each statement passes the hook,
// including the begin and the end of a transaction. It works with the database/sql drivers of this
// project, whose connections and statements accept contexts, and panics with any other.
type Injector struct {
	Hook Hook

	// Rewrite, if not nil, changes the text of a statement before the hook sees it. Tests use it
	// to break a program.
	Rewrite func(text string) string
}

// Through returns a connector that gets its connections from inner, and puts the hook into them.
func (i Injector) Through(inner driver.Connector) driver.Connector { return connector{inner, i} }

type connector struct {
	driver.Connector
	injector Injector
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Injector: c.injector, fullConn: inner.(fullConn)}, nil
}

// fullConn combines the interfaces that the drivers of this project implement. Statements are
// always prepared, so that all of them pass the hook in one place.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
}

// conn is a connection whose statements pass the hook. Package sql uses it from one goroutine at a
// time. It calls PrepareContext and BeginTx, and never Prepare and Begin.
type conn struct {
	Injector
	fullConn
	inTx   bool
	broken bool
}

// Ping does not pass the hook, because it is not a statement of the program.
func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.fullConn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

// ResetSession is called, like IsValid, before a connection is used again.
func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.fullConn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

// IsValid reports whether the connection may be used again.
func (c *conn) IsValid() bool {
	v, ok := c.fullConn.(driver.Validator)
	return !c.broken && (!ok || v.IsValid())
}

// pass calls the hook with a statement, or only send if there is no hook.
func (c *conn) pass(ctx context.Context, s Statement, send func() (Reply, error)) (err error) {
	if c.broken {
		return ErrBroken
	}
	s.InTx = c.inTx
	if c.Hook == nil {
		_, err = send()
		return err
	}
	err = c.Hook(ctx, s, send)
	c.broken = errors.Is(err, ErrBroken)
	return err
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (begun driver.Tx, err error) {
	err = c.pass(ctx, Statement{Text: Begin}, func() (Reply, error) {
		inner, err := c.fullConn.BeginTx(ctx, opts)
		begun, c.inTx = tx{c, inner, ctx}, err == nil
		return Reply{Tx: true}, err
	})
	return begun, err
}

type tx struct {
	c     *conn
	inner driver.Tx
	ctx   context.Context
}

func (t tx) Commit() error   { return t.end(Commit, t.inner.Commit) }
func (t tx) Rollback() error { return t.end(Rollback, t.inner.Rollback) }

func (t tx) end(how string, end func() error) error {
	defer func() { t.c.inTx = false }()
	return t.c.pass(context.WithoutCancel(t.ctx), Statement{Text: how}, func() (Reply, error) {
		return Reply{Tx: true}, end()
	})
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if c.broken {
		return nil, ErrBroken
	}
	if c.Rewrite != nil {
		query = c.Rewrite(query)
	}
	stmt, err := c.fullConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return statement{stmt.(fullStmt), c, query}, nil
}

type fullStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type statement struct {
	fullStmt
	c    *conn
	text string
}

func (s statement) CheckNamedValue(v *driver.NamedValue) error {
	if c, ok := s.fullStmt.(driver.NamedValueChecker); ok {
		return c.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (s statement) with(args []driver.NamedValue) Statement {
	out := Statement{Text: s.text}
	for _, a := range args {
		out.Args = append(out.Args, a.Value)
	}
	return out
}

func (s statement) ExecContext(ctx context.Context, args []driver.NamedValue) (done driver.Result, err error) {
	err = s.c.pass(ctx, s.with(args), func() (Reply, error) {
		if done, err = s.fullStmt.ExecContext(ctx, args); err != nil {
			return Reply{}, err
		}
		n, err := done.RowsAffected()
		return Reply{Changed: n}, err
	})
	return done, err
}

// QueryContext reads all rows before the program gets the first one, so that the hook sees the whole reply.
func (s statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	read := &rows{}
	err := s.c.pass(ctx, s.with(args), func() (Reply, error) {
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
