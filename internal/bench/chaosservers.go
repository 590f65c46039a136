package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
	"oversell/internal/guard"
)

// ChaosServers are a Redis and a database that the bench has started and may break.
type ChaosServers struct {
	*backend.Servers

	redis *local.Redis    // nil: embedded
	db    *local.Database // nil: embedded
	admin redis.UniversalClient
	root  *gorm.DB // with all privileges; nil: embedded
}

// CanServeChaos reports whether ServeChaos starts servers for these values of -redis and -db.
func CanServeChaos(redisSpec, dbSpec string) bool {
	starts := func(spec string) bool { return spec == "embedded" || spec == "local" }
	return starts(redisSpec) && starts(dbSpec)
}

// ServeChaos starts the servers for the values of -redis and -db. Call Close at the end. The error
// wraps ErrConfig if a value is the address of the user's own server.
func ServeChaos(ctx context.Context, redisSpec, dbSpec string) (*ChaosServers, error) {
	if !CanServeChaos(redisSpec, dbSpec) {
		return nil, Invalid(needsOwnServers)
	}
	// Acknowledged writes have reached the operating system, so a killed process loses nothing; only
	// a crash of the machine would lose some.
	servers, err := backend.Serve(ctx, redisSpec, dbSpec, "--appendonly", "yes", "--appendfsync", "no")
	if err != nil {
		return nil, err
	}
	s := &ChaosServers{Servers: servers, redis: servers.Redis, db: servers.Database}
	s.admin, err = backend.DialRedis(ctx, s.RedisURL, 2)
	if err == nil && s.db != nil {
		// The shops have another user, who cannot write while read_only is set.
		s.root, err = backend.DialDatabase(ctx, s.db.AdminURL+"?lock_wait_timeout=3")
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close stops the servers, even if faults have stopped or killed them.
func (s *ChaosServers) Close() error {
	if s.admin != nil {
		_ = s.admin.Close() // a fault may have broken its connections
	}
	if s.root != nil {
		if pool, err := s.root.DB(); err == nil {
			_ = pool.Close()
		}
	}
	return s.Servers.Close()
}

// faultTimeout limits a command that begins or ends a fault.
const faultTimeout = 5 * time.Second

// redisDo returns a function that sends a command.
func (s *ChaosServers) redisDo(command ...any) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, faultTimeout)
		defer cancel()
		if err := s.admin.Do(ctx, command...).Err(); err != nil {
			return fmt.Errorf("%v: %w", command[0], err)
		}
		return nil
	}
}

// loseKeys deletes the item's keys in whose names the given text follows the item's name. If the
// text is "", it deletes all keys of the item.
func (s *ChaosServers) loseKeys(ctx context.Context, sku, what string) error {
	ctx, cancel := context.WithTimeout(ctx, faultTimeout)
	defer cancel()
	keys, err := s.admin.Keys(ctx, "oversell:{"+sku+"}"+what+"*").Result()
	if err == nil && len(keys) > 0 { // none: they were already gone, or the stock is in the database
		err = s.admin.Del(ctx, keys...).Err()
	}
	if err != nil {
		return fmt.Errorf("deleting the keys of %s: %w", sku, err)
	}
	return nil
}

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
