package backend

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"oversell/internal/backend/local"
)

// Server is a Redis or a database to dial: one that this package started, or the user's own.
type Server struct {
	// URL is for DialRedis or DialDatabase, in any process on this machine. It may contain a password,
	// so it must never be logged.
	URL string

	redis    *local.Redis    // nil unless the value "local" of -redis has started it
	database *local.Database // nil unless the value "local" of -db has started it
	stop     func() error    // nil if the server is the user's own
}

// Close stops the server or removes the file, unless it is the user's own. Close may be called more
// than once. Connections that are still open break.
func (s *Server) Close() error {
	if s == nil || s.stop == nil {
		return nil
	}
	return s.stop()
}

// Servers describes a Redis and a database that can be dialled from any process on this machine,
// with their names for the first lines of a report.
type Servers struct {
	RedisURL, RedisName string // the URL may contain a password
	DBURL, DBName       string // the URL may contain a password

	// Redis and Database are the servers that Serve has started for the value "local", or nil.
	Redis    *local.Redis
	Database *local.Database

	redis, db *Server
}

// Serve resolves the values of -redis and -db like ServeRedis and ServeDatabase, and
// checks that both servers answer. The caller must call Close.
func Serve(ctx context.Context, redisSpec, dbSpec string, redisArgs ...string) (*Servers, error) {
	s := &Servers{}
	var g errgroup.Group
	g.Go(func() error { return s.serveRedis(ctx, redisSpec, redisArgs...) })
	g.Go(func() error { return s.serveDB(ctx, dbSpec) })
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// ServeRedisAlone is like Serve, but without a database.
func ServeRedisAlone(ctx context.Context, redisSpec string) (*Servers, error) {
	s := &Servers{DBName: "none"}
	if err := s.serveRedis(ctx, redisSpec); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Servers) serveRedis(ctx context.Context, spec string, args ...string) (err error) {
	if s.redis, err = ServeRedis(ctx, spec, args...); err != nil {
		return err
	}
	s.RedisURL, s.Redis = s.redis.URL, s.redis.redis
	rdb, err := DialRedis(ctx, s.RedisURL, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	s.RedisName, err = RedisName(ctx, rdb, s.RedisURL)
	return err
}

func (s *Servers) serveDB(ctx context.Context, spec string) (err error) {
	if s.db, err = ServeDatabase(ctx, spec); err != nil {
		return err
	}
	s.DBURL, s.Database = s.db.URL, s.db.database
	db, err := DialDatabase(ctx, s.DBURL)
	if err != nil {
		return err
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	s.DBName, err = DatabaseName(ctx, db)
	return err
}

// Close stops the servers that Serve started. It may be called more than once.
func (s *Servers) Close() error { return errors.Join(s.redis.Close(), s.db.Close()) }
