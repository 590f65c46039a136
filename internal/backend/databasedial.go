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

// TablePrefix is the prefix of every table name in this project, so that other tables in the user's
// database are never touched.
const TablePrefix = "oversell_"

// DialDatabase connects to the URL of a database's Server and checks that the
// database answers. To close the connection, close the *sql.DB that its DB
// method returns.
//
// The connection recovers by itself after the server has been down. Errors wrap ErrSpec for a wrong
// URL, and ErrUnreachable if there is no answer within three seconds or the password is refused. No
// error contains the password. The errors of statements are translated to GORM's, such as
// gorm.ErrDuplicatedKey.
func DialDatabase(ctx context.Context, url string) (*gorm.DB, error) {
	return DialDatabaseThrough(ctx, url, func(c sqldriver.Connector) sqldriver.Connector { return c })
}

// DialDatabaseThrough is like DialDatabase, but through wraps the driver's connector, so that
// faults can be injected into statements.
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
	// The pool may keep all of its connections idle: under load a returned connection is needed
	// again immediately, and would have to be dialled again if it had been closed.
	pool.SetMaxOpenConns(32)
	pool.SetMaxIdleConns(32)
	// This is shorter than the time after which servers and proxies silently cut connections.
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
	// SQLite allows one writer at a time, so more connections would only add waiters. One
	// connection would not be enough: a query outside of a transaction that is still open would
	// wait forever.
	pool.SetMaxOpenConns(4)
	pool.SetMaxIdleConns(4)
	// The dialector does not dial. Its DSN is used only by DatabaseName.
	return open(ctx, pool, &sqlite.Dialector{DSN: file, Conn: pool}, file)
}

// sqliteDSN returns the name of a file with the settings of each connection.
func sqliteDSN(file string) string {
	q := url.Values{
		"_pragma": {
			// Readers continue while one connection writes.
			"journal_mode(WAL)",
			// With this setting, a commit in WAL mode does not wait for the disk. A killed process
			// still loses nothing; only a power failure may lose commits.
			"synchronous(NORMAL)",
			// A connection that finds the file busy fails immediately, and waitingConn waits instead. This
			// pragma must be the last one, so that the switch to WAL may wait for the driver's default of
			// five seconds.
			"busy_timeout(0)",
		},
		// A transaction takes the write lock when it begins. Otherwise a transaction that reads
		// first and writes later would fail with SQLITE_BUSY, without waiting, if another
		// transaction has written in between.
		"_txlock": {"immediate"},
	}
	return filepath.ToSlash(file) + "?" + q.Encode()
}

// open checks that the pool's database answers, and opens GORM on it. If it fails, it closes the pool.
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

// forEver is the only lifetime of prepared statements that GORM treats as unlimited. For any other
// value GORM starts a goroutine that never ends.
const forEver = 10 * 365 * 24 * time.Hour

// statementPool shares prepared statements among all callers, but only outside of transactions.
// GORM would also share them within transactions, which can cause a deadlock: a transaction waits
// until another caller has prepared a statement, that caller waits for a connection, and all
// connections may be waiting for a row that the transaction has locked.
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
		// GORM also returns the errors that it would log. Some of them are expected, such as that
		// of a second order with the same key.
		Logger:         logger.Discard,
		TranslateError: true,
		// A single statement is already a transaction.
		SkipDefaultTransaction: true,
		// The databases store times in milliseconds and without a time zone.
		NowFunc: func() time.Time { return time.Now().UTC().Round(time.Millisecond) },
	}
}
