package sales

import (
	"context"
	"database/sql/driver"

	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/lab"
)

// served is the database of a cell.
type served struct{ *backend.DatabaseServer }

// openDatabase is the lab.OpenDatabase of all subjects. The spec is one of -db.
func openDatabase(ctx context.Context, spec string) (lab.Database, error) {
	server, err := backend.ServeDatabase(ctx, spec)
	if err != nil {
		return nil, err
	}
	return served{server}, nil
}

// Dial connects to the database through a connector around the one of its driver.
func (s served) Dial(ctx context.Context, through func(driver.Connector) driver.Connector) (*gorm.DB, error) {
	return backend.DialDatabaseThrough(ctx, s.URL, through)
}

// TablePrefix begins the names of the tables.
func (served) TablePrefix() string { return backend.TablePrefix }
