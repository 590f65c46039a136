package lab

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"oversell/internal/fault"
	"oversell/internal/message"
)

// Database is a database for one cell.
type Database struct {
	// Dial opens a connection pool. It calls through with the driver's connector, and uses the
	// connector that through returns.
	Dial func(ctx context.Context, through func(driver.Connector) driver.Connector) (*gorm.DB, error)

	TablePrefix string // prefix of every table name
	Close       func() error
}

// OpenDatabase starts a database or connects to an existing one, as spec says. Spec has the form of
// Config.Database. Package lab imports no database driver, so that it also builds for a browser.
type OpenDatabase func(ctx context.Context, spec string) (*Database, error)

// database holds a cell's database and its connection pools.
type database struct {
	spec string // as in Config.Database

	mu     sync.Mutex
	server *Database // nil until SideDatabase is called
	pools  []*gorm.DB
}

// dial connects to the database. The connections are closed when the cell ends.
func (d *database) dial(ctx context.Context, through func(driver.Connector) driver.Connector) (*gorm.DB, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	db, err := d.server.Dial(ctx, through)
	if err == nil {
		d.pools = append(d.pools, db)
	}
	return db, err
}

// close closes all connections and the database.
func (d *database) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, db := range d.pools {
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
	}
	if d.server != nil {
		_ = d.server.Close()
	}
}

// SideDatabase opens the cell's database, and connects to it without fault injection. It must be
// called once, before any process calls Database.
func (w *World) SideDatabase(open OpenDatabase) *gorm.DB {
	server, err := open(w.ctx, w.database.spec)
	Need(err == nil, "there is no database: %v", err)
	w.database.server = server
	db, err := w.database.dial(w.ctx, fault.Injector{Rewrite: w.Subject.Rewrite}.Through)
	Need(err == nil, "there is no database: %v", err)
	return db
}

// Database connects the process to the cell's database. The trace shows its statements, and faults
// can be injected into them.
func (p *Process) Database() *gorm.DB {
	var connected atomic.Bool // before that, the library itself sends statements
	hook := func(_ context.Context, s fault.Statement, send func() (fault.Reply, error)) error {
		if !connected.Load() {
			_, err := send()
			return err
		}
		return p.statement(s, send)
	}
	db, err := p.w.database.dial(p.w.ctx, fault.Injector{Hook: hook, Rewrite: p.w.Subject.Rewrite}.Through)
	connected.Store(true)
	Need(err == nil, "%s could not connect to the database: %v", p.Name, err)
	return db
}

// SQL returns the SQL statement in a command, or "" if it is a Redis command.
func SQL(cmd fault.Command) string {
	if !cmd.Is("SQL") {
		return ""
	}
	return cmd.Args[1]
}

// Sends returns a Match for SQL statements that contain a given text.
func Sends(text string) Match {
	return func(cmd fault.Command) bool { return strings.Contains(SQL(cmd), text) }
}

func (p *Process) statement(s fault.Statement, send func() (fault.Reply, error)) error {
	if err := p.passage(p.life); err != nil {
		return fmt.Errorf("%w: %w", fault.ErrBroken, err)
	}
	w := p.w
	text := w.names.statement(p.Name, s, w.database.server.TablePrefix)
	planned := p.fault(0, fault.NewCommand("SQL", s.Text))
	if planned != nil && planned.text != "" {
		w.Trace(p.Name, Fault, "%s: %s", message.Text(planned.text), text)
	}
	e := w.trace.begin(p.Name, text)
	var refused error // error from the database
	_, err := planned.apply(p.life, func() (fault.Value, error) {
		w.trace.now(e)
		reply, err := send()
		refused = err
		text := w.names.value(reply.String())
		if err != nil {
			text = "(" + Brief(err).String() + ")"
		}
		w.trace.change(e, func(e *Event) { e.Reply, e.Until = text, w.trace.ms() })
		return fault.Value("+\r\n"), err
	})
	if refused != nil {
		return refused
	}
	if err == nil {
		err = p.passage(p.life)
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, context.Canceled) { // the statement, or its reply, did not arrive
		w.trace.change(e, func(e *Event) { e.Reply, e.Until = "("+err.Error()+")", 0 })
	}
	return fmt.Errorf("%w: %w", fault.ErrBroken, err)
}

func (n *names) statement(actor string, s fault.Statement, prefix string) string {
	text := strings.Join(strings.Fields(s.Text), " ")
	text = strings.ReplaceAll(text, prefix, "")
	for _, arg := range s.Args {
		before, after, found := strings.Cut(text, "?")
		if !found {
			break
		}
		text = before + n.argument(actor, arg) + after
	}
	return n.value(text)
}

func (n *names) argument(actor string, arg driver.Value) string {
	switch v := arg.(type) {
	case nil:
		return "NULL"
	case []byte:
		return "'" + n.key(string(v)) + "'"
	case string:
		n.mu.Lock()
		defer n.mu.Unlock()
		return "'" + strings.ReplaceAll(n.name(actor, v), "?", "") + "'"
	case time.Time:
		return fmt.Sprintf("start+%d", v.Sub(n.start).Milliseconds())
	}
	text := fmt.Sprint(arg)
	if when, ok := n.moment(text); ok {
		return when
	}
	return text
}
