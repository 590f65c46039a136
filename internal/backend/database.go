package backend

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/glebarez/sqlite"
	"gorm.io/driver/mysql"
	"gorm.io/gorm"

	"oversell/internal/backend/local"
)

// ServeDatabase resolves the value of -db:
//
//   - "embedded" is an SQLite file in a temporary folder;
//   - "local" starts a private mariadbd or mysqld (see package local);
//   - "sqlite:/path/to/file.db" is an SQLite file that is kept, and created if needed;
//   - a DSN such as user:password@tcp(host:3306)/database is the user's own MySQL or MariaDB (see
//     DialDatabase).
//
// ctx limits the start of the server, which runs until Close. Errors wrap ErrSpec, ErrMissing, or
// the reason why the server did not start.
func ServeDatabase(ctx context.Context, spec string) (*Server, error) {
	switch spec {
	case embedded:
		return serveSQLite()
	case privateOnly:
		s, err := local.StartDatabase(ctx)
		if err != nil {
			return nil, err
		}
		return &Server{URL: s.URL, database: s, stop: s.Close}, nil
	}
	if _, err := parseDatabaseURL(spec); err != nil {
		return nil, err
	}
	return &Server{URL: spec}, nil
}

func serveSQLite() (*Server, error) {
	dir, err := os.MkdirTemp("", temporaryFolder)
	if err != nil {
		return nil, fmt.Errorf("make a folder for the database: %w", err)
	}
	stop := func() error {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the database: %w", err)
		}
		return nil
	}
	return &Server{URL: sqliteScheme + filepath.Join(dir, temporaryName), stop: stop}, nil
}

// The embedded database is a file named temporaryName in a folder whose name begins
// with temporaryFolder. Other processes recognise the embedded database by these names.
const (
	temporaryFolder = "oversell-"
	temporaryName   = "oversell.db"
)

// isTemporary reports whether a file was created by serveSQLite, in this process or in
// another.
func isTemporary(file string) bool {
	dir, name := filepath.Split(file)
	parent, folder := filepath.Split(filepath.Clean(dir))
	return name == temporaryName && strings.HasPrefix(folder, temporaryFolder) &&
		filepath.Clean(parent) == filepath.Clean(os.TempDir())
}

// DatabaseName describes the database behind db for the first lines of a
// report, such as "MariaDB 10.11.6 at 127.0.0.1:3306", "SQLite 3.41.2
// (embedded)" or "SQLite 3.41.2 in /path/sales.db", without credentials.
func DatabaseName(ctx context.Context, db *gorm.DB) (string, error) {
	d, ok := db.Dialector.(*mysql.Dialector)
	if !ok {
		return sqliteName(ctx, db)
	}
	version, err := ask(ctx, db, "SELECT VERSION()")
	if err != nil {
		return "", err
	}
	product := "MySQL"
	if strings.Contains(version, "MariaDB") {
		product = "MariaDB"
	}
	number, _, _ := strings.Cut(version, "-")
	return fmt.Sprintf("%s %s at %s", product, number, d.DSNConfig.Addr), nil
}

func sqliteName(ctx context.Context, db *gorm.DB) (string, error) {
	version, err := ask(ctx, db, "SELECT sqlite_version()")
	if err != nil {
		return "", err
	}
	place := "(embedded)"
	if d, ok := db.Dialector.(*sqlite.Dialector); ok && !isTemporary(d.DSN) {
		place = "in " + d.DSN
	}
	return "SQLite " + version + " " + place, nil
}

// ask runs a query that returns one string.
func ask(ctx context.Context, db *gorm.DB, query string) (string, error) {
	var answer string
	if err := db.WithContext(ctx).Raw(query).Scan(&answer).Error; err != nil {
		return "", fmt.Errorf("ask the database for its version: %w", err)
	}
	return answer, nil
}
