package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// ChaosServers are a Redis and a database that the bench has started and may break.
type ChaosServers struct {
	RedisURL, DBURL string

	redis    *local.Redis    // nil: embedded
	db       *local.Database // nil: embedded
	admin    redis.UniversalClient
	root     *gorm.DB // with all privileges; nil: embedded
	shutdown []func() error
}

// CanServeChaos reports whether ServeChaos starts servers for these values of -redis and -db.
func CanServeChaos(redisSpec, dbSpec string) bool {
	starts := func(spec string) bool { return spec == "embedded" || spec == "local" }
	return starts(redisSpec) && starts(dbSpec)
}

// ServeChaos starts the servers for the values of -redis and -db. Call Close at the end. The error
// wraps ErrConfig if a value is the address of the user's own server.
func ServeChaos(ctx context.Context, redisSpec, dbSpec string) (_ *ChaosServers, err error) {
	if !CanServeChaos(redisSpec, dbSpec) {
		return nil, Invalid(needsOwnServers)
	}
	s := &ChaosServers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.serveRedis(ctx, redisSpec); err != nil {
		return nil, err
	}
	if s.admin, err = backend.DialRedis(ctx, s.RedisURL, 2); err != nil {
		return nil, err
	}
	s.shutdown = append(s.shutdown, func() error {
		_ = s.admin.Close() // a fault may have broken its connections
		return nil
	})
	if err := s.serveDB(ctx, dbSpec); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *ChaosServers) serveRedis(ctx context.Context, spec string) (err error) {
	if spec != "local" {
		started, err := backend.ServeRedis(ctx, spec)
		if err != nil {
			return err
		}
		s.shutdown = append(s.shutdown, started.Close)
		s.RedisURL = started.URL
		return nil
	}
	// Acknowledged writes have reached the operating system, so a killed process loses nothing; only
	// a crash of the machine would lose some.
	if s.redis, err = local.StartRedis(ctx, "--appendonly", "yes", "--appendfsync", "no"); err != nil {
		return err
	}
	s.shutdown = append(s.shutdown, s.redis.Close)
	s.RedisURL = s.redis.URL
	return nil
}

// serveDB starts the database. A private server has a user for the shops, which cannot write while
// read_only is set.
func (s *ChaosServers) serveDB(ctx context.Context, spec string) (err error) {
	if spec != "local" {
		started, err := backend.ServeDatabase(ctx, spec)
		if err != nil {
			return err
		}
		s.shutdown = append(s.shutdown, started.Close)
		s.DBURL = started.URL
		return nil
	}
	if s.db, err = local.StartDatabase(ctx); err != nil {
		return err
	}
	s.shutdown = append(s.shutdown, s.db.Close)
	s.DBURL = s.db.URL
	if s.root, err = backend.DialDatabase(ctx, s.db.AdminURL+"?lock_wait_timeout=3"); err != nil {
		return err
	}
	pool, err := s.root.DB()
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	s.shutdown = append(s.shutdown, func() error {
		_ = pool.Close() // a fault may have broken its connections
		return nil
	})
	return nil
}

// Close stops the servers, even if faults have stopped or killed them.
func (s *ChaosServers) Close() error {
	var errs []error
	for _, stop := range slices.Backward(s.shutdown) {
		errs = append(errs, stop())
	}
	s.shutdown = nil
	return errors.Join(errs...)
}

// faultTimeout limits a command that begins or ends a fault.
const faultTimeout = 5 * time.Second
