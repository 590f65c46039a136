package chaos

import (
	"context"
	"errors"
	"fmt"

	driver "github.com/go-sql-driver/mysql"

	"oversell/internal/backend/local"
	"oversell/internal/guard"
)

// shopUser is the shops' database user, which cannot write while read_only is set.
const shopUser = local.DatabaseUser

// startDB starts a private database server with a user for the shops.
func (s *Servers) startDB(ctx context.Context) (err error) {
	if s.db, err = local.StartDatabase(ctx); err != nil {
		return err
	}
	s.shutdown = append(s.shutdown, s.db.Close)
	s.DBURL = s.db.URL
	s.root, err = s.dialDB(ctx, s.db.AdminURL+"?lock_wait_timeout=3")
	return err
}

// dbFault injects a fault into the database itself, and returns a function that ends it.
func (s *Servers) dbFault(ctx context.Context, f Fault) (end func(context.Context) error, err error) {
	ctx, cancel := context.WithTimeout(ctx, f.For+adminTimeout)
	defer cancel()
	switch f.Kind {
	case DBKill:
		s.db.Kill()
		return s.db.Restart, nil
	case DBStop:
		return func(context.Context) error { return s.db.Continue() }, s.db.Pause()
	case DBClientKill:
		return func(context.Context) error { return nil }, s.killConnections(ctx)
	case DBReadOnly:
		return s.rootDo("SET GLOBAL read_only = 0"), s.rootDo("SET GLOBAL read_only = 1")(ctx)
	case DBSlowInserts:
		return s.trigger(ctx, fmt.Sprintf("DO SLEEP(%.3f)", f.Amount.Seconds()))
	case DBTableFull:
		return s.trigger(ctx,
			fmt.Sprintf("SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'The table ''%s'' is full'",
				ordersTable))
	}
	return nil, fmt.Errorf("%s is not a fault of a database", f.Kind)
}

// rootDo returns a function that runs a statement as root. It retries after errors: another
// connection may hold a lock, or this one may have ended.
func (s *Servers) rootDo(statement string) func(context.Context) error {
	return func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, 2*adminTimeout)
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
func (s *Servers) trigger(ctx context.Context, do string) (end func(context.Context) error, err error) {
	const name = "oversell_chaos"
	return s.rootDo("DROP TRIGGER IF EXISTS " + name),
		s.rootDo(fmt.Sprintf("CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW %s", name, ordersTable, do))(ctx)
}

// killConnections ends all connections of the shops.
func (s *Servers) killConnections(ctx context.Context) error {
	var ids []int64
	err := s.root.WithContext(ctx).Raw("SELECT id FROM information_schema.processlist WHERE user = ?",
		shopUser).Scan(&ids).Error
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
