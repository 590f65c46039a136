// Package chaos draws faults in the shops, Redis, the database and the network, and injects them.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// ErrSpec is wrapped by the errors about servers that chaos must not break.
var ErrSpec = errors.New("chaos breaks its servers, so it needs servers that the bench starts: embedded or local")

// The values of -redis and -db that start a server.
const (
	embedded    = "embedded"
	privateOnly = "local"
)

// Servers are a Redis and a database that the bench has started and may break.
type Servers struct {
	RedisURL, RedisName string
	DBURL, DBName       string

	redis    *local.Redis    // nil: embedded
	db       *local.Database // nil: embedded
	admin    redis.UniversalClient
	root     *gorm.DB // with all privileges; nil: embedded
	shutdown []func() error
}

// redisLog is the directory with the data of a private Redis. Acknowledged writes have reached the
// operating system, so a killed process loses nothing; only a crash of the machine would lose some.
const redisLog = "appendonlydir"

func redisArgs() []string { return []string{"--appendonly", "yes", "--appendfsync", "no"} }

// Serve starts the servers for the values of -redis and -db. Call Close at the end. The error wraps
// ErrSpec if a value is the address of the user's own server.
func Serve(ctx context.Context, redisSpec, dbSpec string) (_ *Servers, err error) {
	if err := CheckSpecs(redisSpec, dbSpec); err != nil {
		return nil, err
	}
	s := &Servers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.serveRedis(ctx, redisSpec); err != nil {
		return nil, err
	}
	if err := s.serveDB(ctx, dbSpec); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckSpecs returns an error that wraps ErrSpec unless Serve starts servers for the
// values of -redis and -db.
func CheckSpecs(redisSpec, dbSpec string) error {
	for _, of := range [][2]string{{"-redis", redisSpec}, {"-db", dbSpec}} {
		if of[1] != embedded && of[1] != privateOnly {
			return fmt.Errorf("%w (%s)", ErrSpec, of[0])
		}
	}
	return nil
}

func (s *Servers) serveRedis(ctx context.Context, spec string) (err error) {
	if spec == privateOnly {
		if s.redis, err = local.StartRedis(ctx, redisArgs()...); err != nil {
			return err
		}
		s.shutdown = append(s.shutdown, s.redis.Close)
		s.RedisURL = s.redis.URL
	} else {
		started, err := backend.ServeRedis(ctx, spec)
		if err != nil {
			return err
		}
		s.shutdown = append(s.shutdown, started.Close)
		s.RedisURL = started.URL
	}
	if s.admin, err = backend.DialRedis(ctx, s.RedisURL, 2); err != nil {
		return err
	}
	s.shutdown = append(s.shutdown, broken(s.admin.Close))
	s.RedisName, err = backend.RedisName(ctx, s.admin, s.RedisURL)
	return err
}

func (s *Servers) serveDB(ctx context.Context, spec string) (err error) {
	if spec == privateOnly {
		if err := s.startDB(ctx); err != nil {
			return err
		}
	} else {
		started, err := backend.ServeDatabase(ctx, spec)
		if err != nil {
			return err
		}
		s.shutdown = append(s.shutdown, started.Close)
		s.DBURL = started.URL
	}
	db, err := s.dialDB(ctx, s.DBURL)
	if err != nil {
		return err
	}
	s.DBName, err = backend.DatabaseName(ctx, db)
	return err
}

func (s *Servers) dialDB(ctx context.Context, url string) (*gorm.DB, error) {
	db, err := backend.DialDatabase(ctx, url)
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, fmt.Errorf("connect to the database: %w", err)
	}
	s.shutdown = append(s.shutdown, broken(pool.Close))
	return db, nil
}

// broken returns a function that calls close and ignores its error, for connections that faults may
// have broken.
func broken(close func() error) func() error {
	return func() error {
		_ = close()
		return nil
	}
}

// Kinds lists the faults that can be injected into the servers, and those that cannot.
func (s *Servers) Kinds() (can, cannot []Kind) { return Kinds(s.redis == nil, s.db == nil) }

// Close stops the servers, even if faults have stopped or killed them.
func (s *Servers) Close() error {
	var errs []error
	for i := len(s.shutdown) - 1; i >= 0; i-- {
		errs = append(errs, s.shutdown[i]())
	}
	s.shutdown = nil
	return errors.Join(errs...)
}

// adminTimeout limits a command that begins or ends a fault.
const adminTimeout = 5 * time.Second

const ordersTable = backend.TablePrefix + "orders"
