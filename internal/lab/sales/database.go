package sales

import (
	"context"
	"database/sql/driver"

	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/lab"
)

type served struct{ *backend.DatabaseServer }

// openDatabase is the lab.OpenDatabase of all subjects. The spec is one of -db.
func openDatabase(ctx context.Context, spec string) (lab.Database, error) {
	server, err := backend.ServeDatabase(ctx, spec)
	if err != nil {
		return nil, err
	}
	return served{server}, nil
}

func (s served) Dial(ctx context.Context, through func(driver.Connector) driver.Connector) (*gorm.DB, error) {
	return backend.DialDatabaseThrough(ctx, s.URL, through)
}

func (served) TablePrefix() string { return backend.TablePrefix }
