package backend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DialRedis connects to the URL of a Redis and checks that the server
// answers. The URLs are, with go-redis' parameters after a question mark:
//
//	redis://user:password@host:port/db       one server
//	rediss://…                               the same, and all below, over TLS
//	redis://a:7000,b:7001,c:7002             a cluster; each address may repeat the scheme
//	redis+sentinel://a:26379,b:26379/name/db the master that sentinels know as name
//
// User and password are those of the server; the credentials of the sentinels
// themselves go into the parameters sentinel_username and sentinel_password.
//
// poolSize limits the connections to each server; 0 means go-redis' default. A
// parameter of the URL overrides it.
//
// The client recovers on its own after the server was away. Errors wrap ErrSpec
// for a wrong URL, and ErrUnreachable if there is no answer within three
// seconds or the password is refused; no error contains the password.
func DialRedis(ctx context.Context, url string, poolSize int) (redis.UniversalClient, error) {
	return dialRedis(ctx, url, poolSize, nil)
}

// dialRedis is DialRedis for a client that w watches, unless w is nil.
func dialRedis(ctx context.Context, url string, poolSize int, w *RedisWatch) (redis.UniversalClient, error) {
	target, err := parseRedisURL(url)
	if err != nil {
		return nil, err
	}
	rdb := target.client(poolSize, w)
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := rdb.Ping(ctx).Err(); err != nil {
		_ = rdb.Close()
		return nil, fmt.Errorf("redis at %s: %w: %w", strings.Join(target.addrs, ","), ErrUnreachable, err)
	}
	return rdb, nil
}

// NewRedis is DialRedis for a server that does not have to answer yet. The
// error wraps ErrSpec.
func NewRedis(url string, poolSize int) (redis.UniversalClient, error) {
	target, err := parseRedisURL(url)
	if err != nil {
		return nil, err
	}
	return target.client(poolSize, nil), nil
}

// client creates the client for t without dialling.
func (t *redisTarget) client(poolSize int, w *RedisWatch) redis.UniversalClient {
	o := t.universal()
	if o.PoolSize == 0 {
		o.PoolSize = poolSize
	}
	if w != nil {
		w.watched(o)
	}
	switch {
	case t.cluster:
		return newCluster(o, w)
	case t.master != "":
		return redis.NewFailoverClient(o.Failover())
	}
	return redis.NewClient(o.Simple())
}

// universal returns the settings of every client. A duration in the URL
// overrides the default; nothing else in a URL can change what a lock means.
func (t *redisTarget) universal() *redis.UniversalOptions {
	o := t.options
	readTimeout := orElse(o.ReadTimeout, 1500*time.Millisecond)
	return &redis.UniversalOptions{
		Addrs:            t.addrs,
		MasterName:       t.master,
		SentinelUsername: t.sentinelUser,
		SentinelPassword: t.sentinelPassword,
		Username:         o.Username,
		Password:         o.Password,
		DB:               o.DB,
		TLSConfig:        o.TLSConfig,
		Protocol:         o.Protocol,
		ClientName:       o.ClientName,

		// Never send a command twice. If the reply to an acquire is lost, the
		// repeated SET NX finds its own key and reports "taken"; a repeated
		// HINCRBY counts twice. The lock decides what to do instead. A cluster's client
		// needs a nodeHook as well.
		MaxRetries: -1,

		// One dial attempt: a refused connection is reported immediately, and the next command tries
		// again anyway.
		DialerRetries: 1,
		DialTimeout:   orElse(o.DialTimeout, time.Second),

		// A hung server is noticed within two seconds, dialling included.
		ReadTimeout:  readTimeout,
		WriteTimeout: orElse(o.WriteTimeout, 1500*time.Millisecond),

		// A caller's deadline also ends a running command, not only the wait for a connection: a renewal
		// that completes after the ttl is useless. The price is a connection, which is dropped together
		// with its late reply.
		ContextTimeoutEnabled: true,

		// Thousands of buyers share a few connections. An attempt to take a lock must not be interrupted,
		// so this ends its wait for a connection, not the caller's context. The limit includes the read
		// timeout, because a server that answers within it has not failed.
		PoolTimeout: orElse(o.PoolTimeout, readTimeout+queueTime),
		PoolSize:    o.PoolSize,
		PoolFIFO:    o.PoolFIFO,
		// Pipelines use the same pool, so that its size is the number of
		// connections.
		PipelinePoolSize: -1,

		MinIdleConns:    o.MinIdleConns, // 0: connections are opened when needed
		MaxIdleConns:    o.MaxIdleConns,
		MaxActiveConns:  o.MaxActiveConns,
		ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime: o.ConnMaxLifetime,

		// Saves two commands for each new connection; the bench counts the
		// server's commands.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// queueTime limits the wait for a connection beyond the read timeout. It is longer than the wait
// for a busy Redis that answers, and short enough for one that hangs: behind a small pool, each
// command ahead has to time out first. 5,000 buyers that each retry every 50 ms, on 128 connections
// per instance and two cores with six times the work they could do, waited between one and two
// seconds. A lock's release gives up after five seconds, so a longer wait would not help a holder.
const queueTime = 4 * time.Second

// orElse returns d, or fallback if d is zero.
func orElse(d, fallback time.Duration) time.Duration {
	if d != 0 {
		return d
	}
	return fallback
}
