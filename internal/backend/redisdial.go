package backend

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DialRedis connects to the URL of a Redis and checks that the server answers. The URL has one of
// these forms. Parameters of go-redis may follow after a question mark.
//
//	redis://user:password@host:port/db       one server
//	rediss://…                               the same, and all below, over TLS
//	redis://a:7000,b:7001,c:7002             a cluster; each address may repeat the scheme
//	redis+sentinel://a:26379,b:26379/name/db the master that sentinels know as name
//
// User and password are those of the server; the credentials of the sentinels
// themselves go into the parameters sentinel_username and sentinel_password.
//
// poolSize limits the number of connections to each server; 0 stands for the default of go-redis. A
// parameter of the URL overrides poolSize.
//
// The client recovers by itself after the server has been down. Errors wrap ErrSpec for a wrong
// URL, and ErrUnreachable if there is no answer within three seconds or the password is refused. No
// error contains the password.
func DialRedis(ctx context.Context, url string, poolSize int) (redis.UniversalClient, error) {
	return dialRedis(ctx, url, poolSize, nil)
}

// dialRedis is like DialRedis, but w, unless it is nil, watches the client.
func dialRedis(ctx context.Context, url string, poolSize int, w *RedisWatch) (redis.UniversalClient, error) {
	o, err := parseRedisURL(url)
	if err != nil {
		return nil, err
	}
	rdb := newRedis(o, poolSize, w)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		_ = rdb.Close()
		return nil, fmt.Errorf("redis at %s: %w: %w", strings.Join(o.Addrs, ","), ErrUnreachable, err)
	}
	return rdb, nil
}

// NewRedis is like DialRedis, but does not check that the server answers. The error wraps ErrSpec.
func NewRedis(url string, poolSize int) (redis.UniversalClient, error) {
	o, err := parseRedisURL(url)
	if err != nil {
		return nil, err
	}
	return newRedis(o, poolSize, nil), nil
}

// newRedis returns a client with the settings that parseRedisURL returned. It does not dial.
func newRedis(o *redis.UniversalOptions, poolSize int, w *RedisWatch) redis.UniversalClient {
	o.PoolSize = cmp.Or(o.PoolSize, poolSize)
	if w != nil {
		o.OnConnect = w.at("")
	}
	switch {
	case o.IsClusterMode:
		return newCluster(o, w)
	case o.MasterName != "":
		return redis.NewFailoverClient(o.Failover())
	}
	return redis.NewClient(o.Simple())
}

// settingsOf returns the settings of every client. A duration in the URL's options o overrides the
// default. No other parameter can change the guarantees of a lock.
func settingsOf(o *redis.Options) *redis.UniversalOptions {
	readTimeout := cmp.Or(o.ReadTimeout, 1500*time.Millisecond)
	return &redis.UniversalOptions{
		Username:   o.Username,
		Password:   o.Password,
		DB:         o.DB,
		TLSConfig:  o.TLSConfig,
		Protocol:   o.Protocol,
		ClientName: o.ClientName,

		// A command is never sent twice. If the reply to a lock request is lost, a repeated SET NX would find
		// its own key and report that the lock is held, and a repeated HINCRBY would count twice. The lock
		// decides what to do instead. A cluster's client needs a nodeHook as well.
		MaxRetries: -1,

		// There is only one dial attempt: a refused connection is reported immediately, and the next
		// command dials again anyway.
		DialerRetries: 1,
		DialTimeout:   cmp.Or(o.DialTimeout, time.Second),

		// A server that hangs is noticed within two seconds, including the time to dial.
		ReadTimeout:  readTimeout,
		WriteTimeout: cmp.Or(o.WriteTimeout, 1500*time.Millisecond),

		// A caller's deadline also ends a running command, not only the wait for a connection: a renewal
		// that completes after the ttl is useless. This costs a connection, because the connection is
		// dropped together with the late reply.
		ContextTimeoutEnabled: true,

		// Thousands of buyers share a few connections. A request for a lock must not be interrupted, so
		// its wait for a connection is ended by this timeout, not by the caller's context. The timeout
		// includes the read timeout, because a server that answers within the read timeout has not
		// failed.
		PoolTimeout: cmp.Or(o.PoolTimeout, readTimeout+queueTime),
		PoolSize:    o.PoolSize,
		PoolFIFO:    o.PoolFIFO,
		// Pipelines use the same pool, so that the size of the pool limits the total number of
		// connections.
		PipelinePoolSize: -1,

		MinIdleConns:    o.MinIdleConns, // if 0, connections are opened when needed
		MaxIdleConns:    o.MaxIdleConns,
		MaxActiveConns:  o.MaxActiveConns,
		ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime: o.ConnMaxLifetime,

		// This saves two commands for each new connection, because the bench counts the server's
		// commands.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// queueTime limits the wait for a connection beyond the read timeout. It is longer than the wait
// for a Redis that is busy but answers. It is also short enough for a Redis that hangs, where each
// earlier command in the queue for a small pool must time out first. In a measurement, 5,000 buyers
// that each retried every 50 ms waited for between one and two seconds, with 128 connections per
// instance and a load of six times the capacity of two cores. A lock's release gives up after five
// seconds, so a longer wait would not help a holder.
const queueTime = 4 * time.Second
