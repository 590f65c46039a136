package backend

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"time"
)

// Connections measures the time for which the connections of a database's pool are in use. A
// connection is in use from when it is taken out of the pool until it is returned. A pool has few
// connections, so this time limits the number of sales, even if the database is not busy. The zero
// value is ready to use. Connections is safe for concurrent use.
type Connections struct {
	// Returned, if not nil, is called when a connection is returned, with the time for which the connection
	// was in use.
	Returned func(held time.Duration)

	held  atomic.Int64
	times atomic.Int64
}

// Held returns the total time for which connections were in use, and the number of times that a connection was
// returned. The time of a connection that is still in use is added when the connection is returned.
func (c *Connections) Held() (held time.Duration, times int64) {
	return time.Duration(c.held.Load()), c.times.Load()
}

// Through returns a connector that gets its connections from inner and measures them. Pass the
// method Through to DialDatabaseThrough.
func (c *Connections) Through(inner driver.Connector) driver.Connector {
	return measuredConnector{inner, c}
}

type measuredConnector struct {
	driver.Connector
	connections *Connections
}

func (m measuredConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := m.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &measuredConn{contextConn: conn.(contextConn), connections: m.connections}, nil
}

// contextConn is the set of interfaces that the connections of both drivers implement.
type contextConn interface {
	driver.Conn
	driver.Pinger
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

// measuredConn measures the time for which it is out of the pool. Package sql calls ResetSession when it takes
// a connection out of its pool, and IsValid when it returns the connection. Package sql does not reset a new
// connection. It may put a new connection into the pool unused, so its time counts from its first use. A
// measuredConn needs no mutex, because package sql locks a connection while it uses it.
type measuredConn struct {
	contextConn
	connections *Connections
	taken       time.Time // zero while it is in the pool
}

func (c *measuredConn) take() {
	if c.taken.IsZero() {
		c.taken = time.Now()
	}
}

func (c *measuredConn) giveBack() {
	if c.taken.IsZero() {
		return
	}
	held := time.Since(c.taken)
	c.taken = time.Time{}
	c.connections.held.Add(int64(held))
	c.connections.times.Add(1)
	if c.connections.Returned != nil {
		c.connections.Returned(held)
	}
}

// ResetSession is called when the connection is taken out of the pool.
func (c *measuredConn) ResetSession(ctx context.Context) error {
	c.take()
	if inner, ok := c.contextConn.(driver.SessionResetter); ok {
		return inner.ResetSession(ctx)
	}
	return nil
}

// IsValid is called when the connection is returned.
func (c *measuredConn) IsValid() bool {
	c.giveBack()
	inner, ok := c.contextConn.(driver.Validator)
	return !ok || inner.IsValid()
}

// Close is called without a call to IsValid if the connection broke.
func (c *measuredConn) Close() error {
	c.giveBack()
	return c.contextConn.Close()
}

// CheckNamedValue leaves the check of an argument to the driver, or to package sql if the driver has no
// check.
func (c *measuredConn) CheckNamedValue(v *driver.NamedValue) error {
	if inner, ok := c.contextConn.(driver.NamedValueChecker); ok {
		return inner.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *measuredConn) Ping(ctx context.Context) error {
	c.take()
	return c.contextConn.Ping(ctx)
}

func (c *measuredConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.take()
	return c.contextConn.BeginTx(ctx, opts)
}

func (c *measuredConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	c.take()
	return c.contextConn.PrepareContext(ctx, query)
}

func (c *measuredConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.take()
	return c.contextConn.ExecContext(ctx, query, args)
}

func (c *measuredConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.take()
	return c.contextConn.QueryContext(ctx, query, args)
}
