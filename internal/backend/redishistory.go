package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// RedisHistory returns the id of the history that the data at key belongs to, which
// Redis calls its replication id. It changes when a server is started again,
// perhaps with an older file, and when a replica is promoted, perhaps before it
// heard of the last writes. While it stays the same, no write is lost. It is "" for
// a server that does not tell, such as miniredis.
func RedisHistory(ctx context.Context, rdb redis.UniversalClient, key string) (string, error) {
	var node redis.Cmdable = rdb
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return "", fmt.Errorf("find the master of %s: %w", key, err)
		}
		node = master
	}
	return historyOf(ctx, node)
}

func historyOf(ctx context.Context, node redis.Cmdable) (string, error) {
	info, err := node.Info(ctx, "replication").Result()
	for _, silent := range []string{"section (replication) is not supported", "NOPERM", "ERR unknown command"} {
		if redis.HasErrorPrefix(err, silent) {
			return "", nil
		}
	}
	if err != nil {
		return "", fmt.Errorf("ask redis for its history: %w", err)
	}
	return infoField(info, "master_replid"), nil
}

// RedisWatch notices when the connections of a client lead to another history than
// before, see RedisHistory. It asks on each new connection before anything else
// is sent over it, and costs the commands nothing. So a process notices that Redis
// is another one, also if none of its commands failed. The zero value is ready for
// use by one client.
//
// A cluster's client may have a connection to a replica before that is promoted.
// The watch does not see such a promotion.
type RedisWatch struct {
	changes atomic.Uint64

	mu   sync.Mutex
	last map[string]string // history by address of a cluster's node; "": any other server
}

// Changes returns how often a connection led to another history than the one
// before, or to a new node of a cluster. It has been counted when the first command
// is sent over the connection.
func (w *RedisWatch) Changes() uint64 { return w.changes.Load() }

// Dial is DialRedis for a client that w watches.
func (w *RedisWatch) Dial(ctx context.Context, url string, poolSize int) (redis.UniversalClient, error) {
	return dialRedis(ctx, url, poolSize, w)
}

// watched has w hear of the connections of a client with these options.
func (w *RedisWatch) watched(o *redis.UniversalOptions) { o.OnConnect = w.at("") }

// watchedCluster is watched for a cluster, whose nodes have a history each.
func (w *RedisWatch) watchedCluster(o *redis.ClusterOptions) {
	o.OnConnect = nil
	o.NewClient = func(node *redis.Options) *redis.Client {
		node.OnConnect = w.at(node.Addr)
		return redis.NewClient(node)
	}
}

// at returns what is to be called on each new connection to the server of that name.
func (w *RedisWatch) at(name string) func(context.Context, *redis.Conn) error {
	return func(ctx context.Context, conn *redis.Conn) error {
		id, err := historyOf(ctx, conn)
		var refused redis.Error
		if errors.As(err, &refused) {
			return nil // the connection works, and the command will get the same answer
		}
		if err != nil || id == "" { // a sentinel has no history
			return err
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
