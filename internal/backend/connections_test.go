package backend_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
)

// slowDriver opens connections on which each statement takes a second.
type slowDriver struct{}

func (d slowDriver) Connect(context.Context) (driver.Conn, error) {
	time.Sleep(time.Minute)
	return slowConn{}, nil
}
func (d slowDriver) Driver() driver.Driver { return nil }

type slowConn struct{}

var errBroken = errors.New("broken")

func (slowConn) Begin() (driver.Tx, error)           { return nil, errBroken }
func (slowConn) Prepare(string) (driver.Stmt, error) { return nil, errBroken }
func (slowConn) Ping(context.Context) error          { return nil }
func (slowConn) Close() error                        { return nil }
func (slowConn) BeginTx(context.Context, driver.TxOptions) (driver.Tx, error) {
	return nil, errBroken
}
func (slowConn) PrepareContext(context.Context, string) (driver.Stmt, error) { return nil, errBroken }
func (slowConn) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return nil, errBroken
}
func (slowConn) ExecContext(_ context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	time.Sleep(time.Second)
	if query == "break" {
		return nil, driver.ErrBadConn
	}
	return driver.ResultNoRows, nil
}

// A connection counts as used while it is out of the pool, even between two statements. The time spent in
// the pool, on dialling and on waiting for a free connection does not count.
func TestConnectionsCountWhileTheyAreOutOfThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var last time.Duration
		measured := backend.Connections{Returned: func(held time.Duration) { last = held }}
		pool := sql.OpenDB(measured.Through(slowDriver{}))
		defer pool.Close()
		pool.SetMaxOpenConns(1)
		want := func(held time.Duration, times int64) {
			t.Helper()
			if h, n := measured.Held(); h != held || n != times {
				t.Errorf("held for %v in %d times, want %v in %d", h, n, held, times)
			}
		}
		exec := func(query string) {
			if _, err := pool.ExecContext(t.Context(), query); err != nil {
				t.Error(err)
			}
		}
		exec("one")
		want(time.Second, 1)
		time.Sleep(time.Hour) // the connection is in the pool
		exec("two")
		want(2*time.Second, 2)

		conn, err := pool.Conn(t.Context())
		backendtest.Must(t, err)
		done := make(chan struct{})
		go func() {
			exec("waits for the connection")
			close(done)
		}()
		if _, err := conn.ExecContext(t.Context(), "three"); err != nil {
			t.Error(err)
		}
		time.Sleep(4 * time.Second) // work between two statements
		want(2*time.Second, 2)      // the connection is still out of the pool
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		<-done
		want(8*time.Second, 4)
		if last != time.Second {
			t.Errorf("the last one was told as %v", last)
		}
		if _, err := pool.ExecContext(t.Context(), "break"); !errors.Is(err, driver.ErrBadConn) {
			t.Errorf("got %v", err)
		}
		if h, n := measured.Held(); h != 8*time.Second+time.Duration(n-4)*time.Second || n == 4 {
			t.Errorf("after connections that broke: %v in %d times", h, n)
		}
	})
}
