package backend

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// infoRefused reports whether err means that the user of a Redis may not use INFO, or that the
// server has no such command. Managed servers may be configured in this way.
func infoRefused(err error) bool {
	return redis.HasErrorPrefix(err, "NOPERM") || redis.HasErrorPrefix(err, "unknown command") // ERR is removed
}

// RedisCommands returns the number of commands that the server has executed since its start, summed
// over the masters of a cluster. It returns nil if the server refuses INFO. The number includes the
// commands of all clients, including this one. After a failover, the count of the new master
// continues from its count as a replica.
func RedisCommands(ctx context.Context, rdb redis.UniversalClient) (*int64, error) {
	var sum atomic.Int64 // the nodes of a cluster are asked concurrently
	err := EachMaster(ctx, rdb, func(ctx context.Context, node redis.Cmdable) error {
		n, err := commandsOf(ctx, node)
		sum.Add(n)
		return err
	})
	if infoRefused(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("count redis commands: %w", err)
	}
	return new(sum.Load()), nil
}

func commandsOf(ctx context.Context, node redis.Cmdable) (int64, error) {
	info, err := node.Info(ctx, "stats").Result()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(infoField(info, "total_commands_processed"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("total_commands_processed: %w", err)
	}
	return n, nil
}

// redisVersion returns the server's version. It returns "" for miniredis, which does not support
// the section of INFO with the version.
func redisVersion(ctx context.Context, rdb redis.UniversalClient) (string, error) {
	info, err := rdb.Info(ctx, "server").Result()
	if redis.HasErrorPrefix(err, "section (server) is not supported") {
		return "", nil
	}
	if infoRefused(err) {
		return "of unknown version", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask redis for its version: %w", err)
	}
	version := infoField(info, "redis_version")
	if version == "" {
		return "", fmt.Errorf("ask redis for its version: INFO has no redis_version")
	}
	return version, nil
}

func countMasters(ctx context.Context, rdb redis.UniversalClient) (int64, error) {
	var masters atomic.Int64
	err := EachMaster(ctx, rdb, func(context.Context, redis.Cmdable) error {
		masters.Add(1)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("count the cluster's masters: %w", err)
	}
	return masters.Load(), nil
}

// EachMaster calls f concurrently for each master of a cluster. For any other client,
// it calls f once.
func EachMaster(ctx context.Context, rdb redis.UniversalClient, f func(context.Context, redis.Cmdable) error) error {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return f(ctx, rdb)
	}
	return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		return f(ctx, node)
	})
}

// infoField returns the value in the "name:value" line of a reply to INFO, or "".
func infoField(info, name string) string {
	lines := bufio.NewScanner(strings.NewReader(info))
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && key == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
