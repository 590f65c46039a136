package holds

import (
	"context"
	"errors"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"oversell/internal/stock"
)

// Dialect contains the SQL that differs between MySQL (or MariaDB) and SQLite. All other SQL in the
// stages is the same for both.
type Dialect struct {
	Clock  string // an expression for the database's current time; see stock.ClockSQL
	Ignore string // an INSERT that does nothing if the row exists
	Update string // ends a SELECT whose rows the transaction locks
	Share  string // ends a SELECT that keeps others from changing its rows until the transaction ends
	// Unlocked ends a SELECT that locks its rows and skips those that others have locked. It is "" for
	// SQLite, which has no row locks, and for MySQL before 8 and MariaDB before 10.6.
	Unlocked string

	// Duplicate reports whether a unique index refused a row.
	Duplicate func(error) bool
	// Conflict reports whether the database rolled a transaction back because of a conflict. Such a
	// transaction may be tried again.
	Conflict func(error) bool
	// Decided reports whether an error is the database's own answer, so that the transaction certainly
	// has no effect. After any other error, such as a connection that broke during COMMIT, that is
	// unknown.
	Decided func(error) bool
}

// DialectOf returns the dialect of a database.
func DialectOf(db *gorm.DB) Dialect {
	d := sqliteDialect
	if db.Name() == "mysql" {
		d = mysqlDialect
	}
	d.Clock = stock.ClockSQL(db)
	if d.Unlocked == "" {
		return d
	}
	var one int
	err := stock.Query(context.Background(), db, func(db *gorm.DB) *gorm.DB {
		return db.Raw("SELECT 1 FROM DUAL" + d.Unlocked).Scan(&one)
	}, "trying SKIP LOCKED")
	if stock.IsMySQL(err, erParse) {
		d.Unlocked = ""
	}
	return d
}

// The error numbers of MySQL and MariaDB that are handled here.
const (
	erDuplicate = 1062
	erParse     = 1064
)

var mysqlDialect = Dialect{
	Ignore: "INSERT IGNORE",
	Update: " FOR UPDATE",
	Share:  " LOCK IN SHARE MODE",

	Unlocked:  " FOR UPDATE SKIP LOCKED",
	Duplicate: func(err error) bool { return stock.IsMySQL(err, erDuplicate) },
	Conflict:  stock.Retryable,
	Decided: func(err error) bool {
		var e *mysql.MySQLError
		return errors.As(err, &e)
	},
}

// SQLite has one writer at a time and runs in this process: its transactions begin by taking the
// write lock (see backend.DialDatabase), and an error is always final.
var sqliteDialect = Dialect{
	Ignore: "INSERT OR IGNORE",
	Duplicate: func(err error) bool {
		const primaryKey, unique = 1555, 2067 // SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE
		var e interface {                     // *sqlite.Error; its package does not build for a browser
			error
			Code() int
		}
		return errors.As(err, &e) && (e.Code() == primaryKey || e.Code() == unique)
	},
	Conflict: func(error) bool { return false },
	Decided:  func(error) bool { return true },
}
