package backend

import (
	"context"
	"database/sql"
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

// TablePrefix begins the name of every table of the project: in a user's
// database it touches no other.
const TablePrefix = "oversell_"

// DialDatabase connects to the database that ServeDatabase named and sees
// that it answers. It is used by closing the *sql.DB that its DB method
// returns.
//
// The connection recovers by itself from a server that was away. Errors wrap
// ErrSpec for a wrong URL, ErrUnreachable when there is no answer within three
// seconds or the password is refused; none contains the password. Later
// errors are translated to GORM's: gorm.ErrDuplicatedKey and others.
func DialDatabase(ctx context.Context, url string) (*gorm.DB, error) {
	target, err := parseDatabaseURL(url)
	if err != nil {
		return nil, err
	}
	if target.mysql != nil {
		return dialMySQL(ctx, target.mysql)
	}
	return dialSQLite(ctx, target.file)
}

func dialMySQL(ctx context.Context, c *driver.Config) (*gorm.DB, error) {
	connector, err := driver.NewConnector(c)
	if err != nil {
		return nil, fmt.Errorf("%w for -db: the driver refuses it; %s", ErrSpec, databaseSpecs)
	}
	pool := sql.OpenDB(connector)
	// As many idle as open: under load a connection given back is wanted
	// again at once, and a closed one would have to be dialled.
	pool.SetMaxOpenConns(32)
	pool.SetMaxIdleConns(32)
	// Shorter than what servers and things between cut silently.
	pool.SetConnMaxLifetime(5 * time.Minute)
	return open(ctx, pool, mysql.New(mysql.Config{Conn: pool, DSNConfig: c}), c.Addr)
}

func dialSQLite(ctx context.Context, file string) (*gorm.DB, error) {
	// SQLite says of a folder that is missing that it is out of memory.
	if _, err := os.Stat(filepath.Dir(file)); err != nil {
		return nil, fmt.Errorf("database at %s: %w: %w", file, ErrUnreachable, err)
	}
	pool := sql.OpenDB(&sqliteConnector{dsn: sqliteDSN(file)})
	// One writer at a time is all there is, so more connections would only
	// be more that ask for their turn. One would be too few: a query beside
	// an open transaction would wait for ever.
	pool.SetMaxOpenConns(4)
	pool.SetMaxIdleConns(4)
	// The dialector dials nothing: its DSN is for DatabaseName.
	return open(ctx, pool, &sqlite.Dialector{DSN: file, Conn: pool}, file)
}

// sqliteDSN adds to a file's name how each connection treats it.
func sqliteDSN(file string) string {
	q := url.Values{
		"_pragma": {
			// Readers go on while one connection writes.
			"journal_mode(WAL)",
			// In WAL mode a commit then waits for no disk, and a killed
			// process still loses nothing; only a power cut may.
			"synchronous(NORMAL)",
			// A connection that finds the file busy says so at once, and
			// waitingConn does the waiting. Last: the switch to WAL waits
			// with the driver's own five seconds.
			"busy_timeout(0)",
		},
		// A transaction takes the write lock as it begins. One that reads
		// first and writes later would otherwise fail with SQLITE_BUSY,
		// without waiting, when another has written in between.
		"_txlock": {"immediate"},
	}
	return filepath.ToSlash(file) + "?" + q.Encode()
}

// open checks that pool's database answers and puts GORM on top. It owns pool.
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
	return db, nil
}

// forEver is the one age of prepared statements that GORM takes to mean that
// they do not expire. For any other it starts a goroutine that nothing ends.
const forEver = 10 * 365 * 24 * time.Hour

func settings() *gorm.Config {
	return &gorm.Config{
		NamingStrategy: schema.NamingStrategy{TablePrefix: TablePrefix},
		// What GORM would print it returns as well, and some of it is no
		// failure at all here, as a second order for one key.
		Logger:         logger.Discard,
		TranslateError: true,
		PrepareStmt:    true,
		PrepareStmtTTL: forEver,
		// A single statement is a transaction already.
		SkipDefaultTransaction: true,
		// Both databases keep milliseconds and no zone.
		NowFunc: func() time.Time { return time.Now().UTC().Round(time.Millisecond) },
	}
}
