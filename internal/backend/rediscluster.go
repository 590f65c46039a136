package backend

import (
	"context"
	"errors"
	"net"

	"github.com/redis/go-redis/v9"
)

// newCluster returns a client of a cluster. Unless w is nil, w watches the client.
func newCluster(o *redis.UniversalOptions, w *RedisWatch) *redis.ClusterClient {
	options := o.Cluster()
	options.OnConnect = nil
	var cluster *redis.ClusterClient
	options.NewClient = func(node *redis.Options) *redis.Client {
		if w != nil {
			node.OnConnect = w.at(node.Addr)
		}
		client := redis.NewClient(node)
		client.AddHook(nodeHook{func() { cluster.ReloadState(context.Background()) }})
		return client
	}
	cluster = redis.NewClusterClient(options)
	return cluster
}

// nodeHook corrects two behaviours of a cluster's client when a node is unavailable.
//
// The client resends a command after a lost reply, up to the same limit as for MOVED and ASK, and
// MaxRetries does not prevent that. The hook lets a resent command through only if no server has
// executed it, because the server has refused it or could not be dialled.
//
// The client asks for the list of nodes only once a minute, so it would continue to dial a primary
// that a replica has replaced. The hook makes the client ask when a node does not answer.
type nodeHook struct {
	reload func() // returns immediately
}

// DialHook implements redis.Hook.
func (h nodeHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := next(ctx, network, addr)
		if err != nil {
			h.reload()
		}
		return conn, err
	}
}

// ProcessHook implements redis.Hook.
func (h nodeHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := cmd.Err(); maybeExecuted(err) {
			h.reload()
			return err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook. It keeps the result of each command: if the
// connection breaks, earlier commands already have their replies.
func (h nodeHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if maybeExecuted(cmd.Err()) {
				h.reload()
				return nil
			}
		}
		return next(ctx, cmds)
	}
}

// maybeExecuted reports whether a server may have executed the command that failed with err.
func maybeExecuted(err error) bool {
	var reply redis.Error
	var network *net.OpError
	switch {
	case err == nil, errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return false
	case errors.As(err, &reply): // the server refused the command
		return false
	case errors.As(err, &network) && network.Op == "dial":
		return false
	}
	return true
}
