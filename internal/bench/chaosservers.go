package bench

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// ChaosServers are a Redis and a database that the bench has started and may break.
type ChaosServers struct {
	RedisURL, DBURL string

	redis   *local.Redis    // nil: embedded
	db      *local.Database // nil: embedded
	admin   redis.UniversalClient
	root    *gorm.DB // with all privileges; nil: embedded
	started []io.Closer
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
		s.started, s.RedisURL = append(s.started, started), started.URL
		return nil
	}
	// Acknowledged writes have reached the operating system, so a killed process loses nothing; only
	// a crash of the machine would lose some.
	if s.redis, err = local.StartRedis(ctx, "--appendonly", "yes", "--appendfsync", "no"); err != nil {
		return err
	}
	s.started, s.RedisURL = append(s.started, s.redis), s.redis.URL
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
		s.started, s.DBURL = append(s.started, started), started.URL
		return nil
	}
	if s.db, err = local.StartDatabase(ctx); err != nil {
		return err
	}
	s.started, s.DBURL = append(s.started, s.db), s.db.URL
	s.root, err = backend.DialDatabase(ctx, s.db.AdminURL+"?lock_wait_timeout=3")
	return err
}

// Close stops the servers, even if faults have stopped or killed them.
func (s *ChaosServers) Close() (err error) {
	if s.admin != nil {
		_ = s.admin.Close() // a fault may have broken its connections
	}
	if s.root != nil {
		if pool, err := s.root.DB(); err == nil {
			_ = pool.Close()
		}
	}
	for _, server := range s.started {
		err = errors.Join(err, server.Close())
	}
	return err
}

// faultTimeout limits a command that begins or ends a fault.
const faultTimeout = 5 * time.Second
