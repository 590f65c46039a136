package backend

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// databaseSpecs lists the values that -db accepts. It is part of every error about a value.
const databaseSpecs = "want embedded, local, sqlite:FILE or user:password@tcp(host:3306)/database"

const sqliteScheme = "sqlite:"

// databaseTarget is a parsed URL of a database. One of its fields is set.
type databaseTarget struct {
	file  string // path of an SQLite file
	mysql *mysql.Config
}

// parseDatabaseURL parses a DSN of go-sql-driver or the name of an SQLite file.
// The errors wrap ErrSpec and repeat nothing that could be a password.
func parseDatabaseURL(spec string) (databaseTarget, error) {
	t, err := parseDatabase(spec)
	if err != nil {
		return databaseTarget{}, fmt.Errorf("%w for -db: %w; %s", ErrSpec, err, databaseSpecs)
	}
	return t, nil
}

func parseDatabase(spec string) (databaseTarget, error) {
	if file, ok := strings.CutPrefix(spec, sqliteScheme); ok {
		return parseSQLiteFile(file)
	}
	if err := checkDSN(spec); err != nil {
		return databaseTarget{}, err
	}
	c, err := mysql.ParseDSN(spec)
	if err != nil {
		// The driver's message may repeat a part of the password that it mistook for something else.
		return databaseTarget{}, errors.New("it does not parse as a DSN")
	}
	if c.Net != "tcp" && c.Net != "unix" {
		return databaseTarget{}, errors.New("the address is neither in tcp(…) nor in unix(…)")
	}
	if c.DBName == "" {
		return databaseTarget{}, errors.New("it names no database after the last slash")
	}
	return databaseTarget{mysql: withOwnSettings(c)}, nil
}

func parseSQLiteFile(file string) (databaseTarget, error) {
	switch {
	case strings.Trim(file, "/") == "":
		return databaseTarget{}, errors.New("sqlite: names no file")
	case strings.HasPrefix(file, ":memory:"):
		return databaseTarget{}, errors.New("several processes cannot share :memory: databases")
	case strings.ContainsAny(file, "?\x00"):
		return databaseTarget{}, errors.New("sqlite cannot open a file name with a question mark or a NUL")
	}
	return databaseTarget{file: file}, nil
}

// checkDSN returns an error for the common mistakes in a DSN.
func checkDSN(spec string) error {
	switch {
	case spec == "":
		return errors.New("it is empty")
	case isWord(spec):
		return fmt.Errorf("unknown word %q", spec)
	case strings.Contains(spec, "://"):
		return errors.New("it is a URL, not a DSN")
	case !strings.Contains(spec, "/"):
		return errors.New("the slash before the database is missing")
	case !strings.Contains(spec, "("):
		return errors.New("the address is not in tcp(…)")
	}
	return nil
}

// withOwnSettings adds the settings on which this project relies to a user's DSN. It
// sets only those timeouts that the DSN does not set.
func withOwnSettings(c *mysql.Config) *mysql.Config {
	c.ParseTime = true
	c.Loc = time.UTC
	// A statement that is not kept prepared is sent together with its values, in one round trip
	// instead of three.
	c.InterpolateParams = true
	// The affected rows are the rows that were changed, not the rows that were found. Otherwise an
	// INSERT that finds an existing row would look as if it had inserted the row.
	c.ClientFoundRows = false
	c.Logger = &mysql.NopLogger{} // every failure is also returned as an error
	c.Timeout = cmp.Or(c.Timeout, 2*time.Second)
	// The longest silence of a healthy server is a wait for a row lock, so that wait has a shorter
	// limit. It then ends with the server's error, rather than with a broken connection and an
	// unknown outcome. The caller's context can end both waits sooner.
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 15*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 15*time.Second)
	if c.Params == nil {
		c.Params = make(map[string]string)
	}
	if _, ok := c.Params["innodb_lock_wait_timeout"]; !ok {
		c.Params["innodb_lock_wait_timeout"] = "2"
	}
	return c
}

// ErrNotRelayed means that no relay can be put in front of the database at a URL, because the URL
// names an SQLite file, a Unix socket, or a server with TLS.
var ErrNotRelayed = errors.New("not a MySQL or MariaDB at host:port without TLS")

// DatabaseAddr returns the host:port in the URL of a MySQL or MariaDB. Errors wrap ErrSpec for a
// wrong URL, and ErrNotRelayed for any other kind of database. They never contain the password.
func DatabaseAddr(url string) (string, error) {
	target, err := parseDatabaseURL(url)
	if err != nil {
		return "", err
	}
	if c := target.mysql; c == nil || c.Net != "tcp" || c.TLS != nil {
		return "", ErrNotRelayed
	}
	return target.mysql.Addr, nil
}

// WithDatabaseAddr returns the URL of a MySQL or MariaDB with addr in place of its host:port. Its
// errors are those of DatabaseAddr.
func WithDatabaseAddr(url, addr string) (string, error) {
	if _, err := DatabaseAddr(url); err != nil {
		return "", err
	}
	c, err := mysql.ParseDSN(url)
	if err != nil {
		// err may repeat a part of the password.
		return "", fmt.Errorf("%w for -db: it does not parse as a DSN", ErrSpec)
	}
	c.Addr = addr
	return c.FormatDSN(), nil
}
