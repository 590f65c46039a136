package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// RedisHistory returns a function that asks Redis for the history id of the data at a key. The
// history id is Redis's replication id. The id changes when a server restarts, possibly from an
// older file, and when a replica is promoted, possibly without the last writes. As long as the id
// stays the same, no write has been lost. It is "" for a server that does not report an id, such as
// miniredis, or that refuses INFO.
func RedisHistory(rdb redis.UniversalClient) func(ctx context.Context, key string) (string, error) {
	return func(ctx context.Context, key string) (string, error) {
		node := redis.Cmdable(rdb)
		if cluster, ok := rdb.(*redis.ClusterClient); ok {
			master, err := cluster.MasterForKey(ctx, key)
			if err != nil {
				return "", fmt.Errorf("find the master of %s: %w", key, err)
			}
			node = master
		}
		id, _, err := replicationOf(ctx, node)
		return id, err
	}
}

// replicationOf returns a server's history id, and whether the server is a replica.
func replicationOf(ctx context.Context, node redis.Cmdable) (history string, replica bool, err error) {
	info, err := node.Info(ctx, "replication").Result()
	if infoRefused(err) || redis.HasErrorPrefix(err, "section (replication) is not supported") {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("ask redis for its history: %w", err)
	}
	return infoField(info, "master_replid"), infoField(info, "role") == "slave", nil
}

// RedisWatch detects that the connections of a client lead to a different history than before (see
// RedisHistory). It asks for the history id on each new connection, before any command is sent over
// it, so commands cost no more. So a process notices that it talks to a different Redis even if
// none of its commands failed. The zero value is ready for use by one client.
//
// The client of a cluster gets no connection to a replica, because the connection would survive the
// replica's promotion, and the history would not be checked again.
type RedisWatch struct {
	changes atomic.Uint64

	mu   sync.Mutex
	last map[string]string // history by address of a cluster's node; key "" for any other server
}

// Changes returns the number of new connections that led to a different history than the previous
// connection, or to a new node of a cluster. A change is counted before the first command is sent
// over the new connection.
func (w *RedisWatch) Changes() uint64 { return w.changes.Load() }

// Dial is like DialRedis, but w watches the client.
func (w *RedisWatch) Dial(ctx context.Context, url string, poolSize int) (redis.UniversalClient, error) {
	return dialRedis(ctx, url, poolSize, w)
}

// errReplica is the error of a new connection that leads to a replica in a cluster.
var errReplica = errors.New("the node is a replica")

// at returns the function to call on each new connection to the named server. The name is the
// address of a cluster's node, or "" for a single server.
func (w *RedisWatch) at(name string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		id, replica, err := replicationOf(ctx, conn)
		var refused redis.Error
		if errors.As(err, &refused) {
			return nil // the connection works, and the caller's command will get the same error
		}
		if err != nil || id == "" { // a sentinel has no history
			return err
		}
		if replica && name != "" {
			return errReplica
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.last[name] != id {
			if w.last == nil {
				w.last = make(map[string]string)
			}
			w.last[name] = id
			w.changes.Add(1)
		}
		return nil
	}
}
