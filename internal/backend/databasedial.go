package backend

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/glebarez/sqlite"
	driver "github.com/go-sql-driver/mysql"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"
)

// TablePrefix begins the name of every table of this project, so that tables of
// the user's database are never touched.
const TablePrefix = "oversell_"

// DialDatabase connects to the URL of a database's Server and checks that the
// database answers. To close the connection, close the *sql.DB that its DB
// method returns.
//
// The connection recovers on its own after the server was away. Errors wrap
// ErrSpec for a wrong URL, and ErrUnreachable if there is no answer within
// three seconds or the password is refused; no error contains the password.
// Later errors are translated to GORM's, such as gorm.ErrDuplicatedKey.
func DialDatabase(ctx context.Context, url string) (*gorm.DB, error) {
	return DialDatabaseThrough(ctx, url, func(c sqldriver.Connector) sqldriver.Connector { return c })
}

// DialDatabaseThrough is DialDatabase with a connector wrapped around the driver's, so that faults
// can be injected into statements.
func DialDatabaseThrough(
	ctx context.Context, url string, through func(sqldriver.Connector) sqldriver.Connector,
) (*gorm.DB, error) {
	target, err := parseDatabaseURL(url)
	if err != nil {
		return nil, err
	}
	if target.mysql != nil {
		return dialMySQL(ctx, target.mysql, through)
	}
	return dialSQLite(ctx, target.file, through)
}

func dialMySQL(
	ctx context.Context, c *driver.Config, through func(sqldriver.Connector) sqldriver.Connector,
) (*gorm.DB, error) {
	connector, err := driver.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("%w for -db: the driver refuses it; %s", ErrSpec, databaseSpecs)
	}
	pool := sql.OpenDB(through(connector))
	// Keep as many idle as open: under load a returned connection is needed again immediately, and if
	// it had been closed, it would have to be dialled.
	pool.SetMaxOpenConns(32)
	pool.SetMaxIdleConns(32)
	// Shorter than the time after which servers and proxies silently cut
	// connections.
	pool.SetConnMaxLifetime(5 * time.Minute)
	return open(ctx, pool, mysql.New(mysql.Config{Conn: pool, DSNConfig: c}), c.Addr)
}

func dialSQLite(
	ctx context.Context, file string, through func(sqldriver.Connector) sqldriver.Connector,
) (*gorm.DB, error) {
	// SQLite reports a missing folder as "out of memory".
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return nil, fmt.Errorf("database at %s: %w: %w", file, ErrUnreachable, err)
	}
	connector, err := newSQLiteConnector(sqliteDSN(file))
	if err != nil {
		return nil, fmt.Errorf("database at %s: %w: %w", file, ErrUnreachable, err)
	}
	pool := sql.OpenDB(through(connector))
	// SQLite allows one writer at a time, so more connections would only add
	// waiters. One would be too few: a query beside an open transaction would
	// wait forever.
	pool.SetMaxOpenConns(4)
	pool.SetMaxIdleConns(4)
	// The dialector does not dial: its DSN is only for DatabaseName.
	return open(ctx, pool, &sqlite.Dialector{DSN: file, Conn: pool}, file)
}

// sqliteDSN adds the settings of each connection to a file's name.
func sqliteDSN(file string) string {
	q := url.Values{
		"_pragma": {
			// Readers continue while one connection writes.
			"journal_mode(WAL)",
			// In WAL mode a commit then does not wait for the disk. A killed
			// process still loses nothing; only a power failure may lose
			// commits.
			"synchronous(NORMAL)",
			// A connection that finds the file busy fails immediately, and waitingConn does the waiting.
			// This must come last, so that the switch to WAL still waits for the driver's own five seconds.
			"busy_timeout(0)",
		},
		// A transaction takes the write lock when it begins. Otherwise one that
		// reads first and writes later would fail with SQLITE_BUSY, without
		// waiting, if another has written in between.
		"_txlock": {"immediate"},
	}
	return filepath.ToSlash(file) + "?" + q.Encode()
}

// open checks that pool's database answers and opens GORM on it. It owns pool.
func open(ctx context.Context, pool *sql.DB, d gorm.Dialector, addr string) (*gorm.DB, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := pool.PingContext(ctx); err != nil {
		err = fmt.Errorf("database at %s: %w: %w", addr, ErrUnreachable, err)
		return nil, errors.Join(err, pool.Close())
	}
	db, err := gorm.Open(d, settings())
	if err != nil {
		err = fmt.Errorf("database at %s: %w: %w", addr, ErrUnreachable, err)
		return nil, errors.Join(err, pool.Close())
	}
	db.ConnPool = statementPool{gorm.NewPreparedStmtDB(pool, 0, forEver), pool}
	db.Statement.ConnPool = db.ConnPool
	return db, nil
}

// forEver is the one lifetime of prepared statements that GORM treats as
// unlimited. For any other value it starts a goroutine that never ends.
const forEver = 10 * 365 * 24 * time.Hour

// statementPool shares prepared statements among all callers, but only outside of transactions.
// GORM would also share them within transactions, which is dangerous: a transaction waits until
// another caller has prepared a statement, and that caller waits for a connection, all of which may
// be waiting for a row that the transaction has locked.
type statementPool struct {
	*gorm.PreparedStmtDB
	pool *sql.DB
}

// BeginTx implements gorm.TxBeginner.
func (p statementPool) BeginTx(ctx context.Context, opts *sql.TxOptions) (*sql.Tx, error) {
	return p.pool.BeginTx(ctx, opts)
}

func settings() *gorm.Config {
	return &gorm.Config{
		NamingStrategy: schema.NamingStrategy{TablePrefix: TablePrefix},
		// GORM also returns what it would log, and some of it is not a failure
		// here, such as a second order with the same key.
		Logger:         logger.Discard,
		TranslateError: true,
		// A single statement is already a transaction.
		SkipDefaultTransaction: true,
		// Both databases store milliseconds and no time zone.
		NowFunc: func() time.Time { return time.Now().UTC().Round(time.Millisecond) },
	}
}
