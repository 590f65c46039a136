package backend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// DialRedis connects to the Redis that ServeRedis named and sees that it
// answers. The URLs are, with go-redis' parameters after a question mark:
//
//	redis://user:password@host:port/db       one server
//	rediss://…                               the same, and all below, over TLS
//	redis://a:7000,b:7001,c:7002             a cluster
//	redis://a:7000,redis://b:7001            the same cluster
//	redis+sentinel://a:26379,b:26379/name/db the master that sentinels know as name
//
// User and password are the server's; what the sentinels themselves want goes
// into the parameters sentinel_username and sentinel_password.
//
// poolSize bounds the connections to each server, 0 for go-redis' default. A
// parameter of the URL wins over it.
//
// The client recovers by itself from a server that was away. Errors wrap
// ErrSpec for a wrong URL, ErrUnreachable when there is no answer within three
// seconds or the password is refused; none contains the password.
func DialRedis(ctx context.Context, url string, poolSize int) (redis.UniversalClient, error) {
	return dialRedis(ctx, url, poolSize, nil)
}

// dialRedis is DialRedis for a client that w watches, if it is not nil.
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

// NewRedis is DialRedis for a server that need not answer yet. The error wraps
// ErrSpec.
func NewRedis(url string, poolSize int) (redis.UniversalClient, error) {
	target, err := parseRedisURL(url)
	if err != nil {
		return nil, err
	}
	return target.client(poolSize, nil), nil
}

// client makes the client for t. Nothing is dialled yet.
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
		cluster := o.Cluster()
		if w != nil {
			w.watchedCluster(cluster)
		}
		return redis.NewClusterClient(cluster)
	case t.master != "":
		return redis.NewFailoverClient(o.Failover())
	}
	return redis.NewClient(o.Simple())
}

// universal has the settings of every client. A duration that the URL gives
// wins; nothing else of a URL could change what a lock means.
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

		// Never send a command twice. If the reply to an acquire is lost,
		// the repeated SET NX is told "taken" by its own key; a repeated
		// HINCRBY counts twice. What to do is for the lock to decide.
		MaxRetries: -1,

		// One dial attempt: a refused connection is news at once, and the
		// next command tries again anyway.
		DialerRetries: 1,
		DialTimeout:   orElse(o.DialTimeout, time.Second),

		// A hung server is noticed within two seconds, dialling included.
		ReadTimeout:  readTimeout,
		WriteTimeout: orElse(o.WriteTimeout, 1500*time.Millisecond),

		// A caller's deadline cuts a command off, not only the wait for a
		// connection: a renewal that comes after the ttl is worth nothing.
		// The price is a connection, dropped with its late reply.
		ContextTimeoutEnabled: true,

		// Thousands of buyers share a few connections. An attempt at a lock
		// must not be cut off, so its wait for one ends here and not with
		// the caller's context. A silence that ends in time is nobody's
		// failure, and so is part of it.
		PoolTimeout: orElse(o.PoolTimeout, readTimeout+queueTime),
		PoolSize:    o.PoolSize,
		PoolFIFO:    o.PoolFIFO,
		// Pipelines take their connections from the same pool, so that its
		// size is the number of connections.
		PipelinePoolSize: -1,

		MinIdleConns:    o.MinIdleConns, // none: connections are made when needed
		MaxIdleConns:    o.MaxIdleConns,
		MaxActiveConns:  o.MaxActiveConns,
		ConnMaxIdleTime: o.ConnMaxIdleTime,
		ConnMaxLifetime: o.ConnMaxLifetime,

		// Two commands less for each new connection; the bench counts the
		// server's commands.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// queueTime is longer than the queue for a connection to a Redis that answers,
// and short enough for one that hangs: behind a small pool each command ahead
// takes the time to notice. 5,000 buyers who each ask every 50 ms, on 128
// connections an instance and two cores that had six times their work, waited
// for more than a second and for less than two. And a lock's release gives up
// after five seconds, so that a longer queue would be no use to a holder.
const queueTime = 4 * time.Second

// orElse returns d, or fallback when d is not set.
func orElse(d, fallback time.Duration) time.Duration {
	if d != 0 {
		return d
	}
	return fallback
}
