package backend

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/local"
)

// ServeRedis resolves the value of -redis:
//
//   - "embedded" serves miniredis from this process, on a free loopback port, with a running clock
//     and a random password;
//   - "local" starts a private redis-server (see package local) with the given arguments;
//   - "local:cluster" starts a private cluster of three primaries and three replicas;
//   - a URL of the user's own Redis, or its host:port, is checked and kept (see DialRedis).
//
// ctx limits the start of the server, which runs until Close. Errors wrap ErrSpec, ErrMissing, or
// the reason why the server did not start.
func ServeRedis(ctx context.Context, spec string, args ...string) (*Server, error) {
	switch spec {
	case embedded:
		return serveMiniredis()
	case privateOnly:
		s, err := local.StartRedis(ctx, args...)
		if err != nil {
			return nil, err
		}
		return &Server{URL: s.URL, redis: s, stop: s.Close}, nil
	case privateCluster:
		c, err := local.StartCluster(ctx)
		if err != nil {
			return nil, err
		}
		return &Server{URL: c.URL(), stop: c.Close}, nil
	}
	if _, err := parseRedisURL(spec); err != nil {
		return nil, err
	}
	return &Server{URL: withScheme(spec)}, nil
}

func serveMiniredis() (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	password := rand.Text()
	m.RequireAuth(password)
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start miniredis: %w", err)
	}
	stop := func() error {
		m.Close()
		return nil
	}
	return &Server{URL: "redis://:" + password + "@" + m.Addr(), stop: stop}, nil
}

// EmbeddedRedis reports whether the server at a URL is a miniredis. Its errors are those of
// DialRedis and of a request for the version.
func EmbeddedRedis(ctx context.Context, url string) (_ bool, err error) {
	rdb, err := DialRedis(ctx, url, 1)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rdb.Close()) }()
	version, err := redisVersion(ctx, rdb)
	return version == "", err
}

// RedisName describes the server behind rdb for the first lines of a report, such as "redis 7.0.15
// at 127.0.0.1:6379", without credentials. url must be the URL with which rdb was dialled.
func RedisName(ctx context.Context, rdb redis.UniversalClient, url string) (string, error) {
	o, err := parseRedisURL(url)
	if err != nil {
		return "", err
	}
	version, err := redisVersion(ctx, rdb)
	if err != nil {
		return "", err
	}
	if version == "" {
		return strings.TrimSpace("miniredis "+moduleVersion("github.com/alicebob/miniredis/v2")) + " (embedded)", nil
	}
	name, addrs := "redis "+version, strings.Join(o.Addrs, ",")
	switch {
	case o.IsClusterMode:
		masters, err := countMasters(ctx, rdb)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s at %s (cluster, %d masters)", name, addrs, masters), nil
	case o.MasterName != "":
		return fmt.Sprintf("%s, master %q of the sentinels at %s", name, o.MasterName, addrs), nil
	}
	return name + " at " + addrs, nil
}
