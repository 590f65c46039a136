package bench

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
	"oversell/internal/guard"
)

const ordersTable = backend.TablePrefix + "orders"

// rootDo returns a function that runs a statement as root. It retries after errors: another
// connection may hold a lock, or this one may have ended.
func (s *ChaosServers) rootDo(statement string) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 2*faultTimeout)
		defer cancel()
		for {
			if err = s.root.WithContext(ctx).Exec(statement).Error; err == nil {
				return nil
			}
			if guard.Sleep(ctx, often) != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
	}
}

// trigger creates a trigger that runs a statement for each inserted order, and returns a function
// that drops it.
func (s *ChaosServers) trigger(ctx context.Context, do string) (end func(context.Context) error, err error) {
	const name = "oversell_chaos"
	return s.rootDo("DROP TRIGGER IF EXISTS " + name),
		s.rootDo(fmt.Sprintf("CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW %s", name, ordersTable, do))(ctx)
}

// killConnections ends all connections of the shops.
func (s *ChaosServers) killConnections(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	var ids []int64
	err := s.root.WithContext(ctx).Raw("SELECT id FROM information_schema.processlist WHERE user = ?",
		local.DatabaseUser).Scan(&ids).Error
	if err != nil {
		return fmt.Errorf("listing the connections: %w", err)
	}
	for _, id := range ids {
		if err := s.root.WithContext(ctx).Exec(fmt.Sprintf("KILL CONNECTION %d", id)).Error; err != nil && !gone(err) {
			return fmt.Errorf("killing a connection: %w", err)
		}
	}
	return nil
}

// gone reports whether err means that the connection to be killed has already ended.
func gone(err error) bool {
	const erNoSuchThread = 1094
	var said *driver.MySQLError
	return errors.As(err, &said) && said.Number == erNoSuchThread
}
