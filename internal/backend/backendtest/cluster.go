package backendtest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/local"
)

// groupPassword is the password of servers that have to know each other's. It is
// only used in tests, so it is not a secret.
const groupPassword = "test"

// slots is the number of hash slots of a Redis cluster.
const slots = 16384

// Cluster runs a Redis cluster of three masters without replicas for the length
// of the test and returns its URL, a value for -redis.
func Cluster(t testing.TB) string {
	t.Helper()
	ctx := starting(t)
	const masters = 3
	var addrs []string
	var nodes []*redis.Client
	for i := range masters {
		bus := clusterNode(t)
		node := single(t, bus.node.URL)
		must(t, node.ClusterAddSlotsRange(ctx, slots*i/masters, slots*(i+1)/masters-1).Err())
		if i > 0 {
			must(t, meet(ctx, nodes[0], bus))
		}
		nodes, addrs = append(nodes, node), append(addrs, bus.node.Addr)
	}
	for _, node := range nodes {
		eventually(t, ctx, "the cluster is complete", func() bool { return complete(ctx, node, masters) })
	}
	return "redis://:" + groupPassword + "@" + strings.Join(addrs, ",")
}

// clusterMember is a node and its port for the cluster bus.
type clusterMember struct {
	node *LocalRedis
	bus  int
}

func clusterNode(t testing.TB) clusterMember {
	t.Helper()
	bus, err := local.FreePort()
	must(t, err)
	node := RestartableRedis(t,
		"--requirepass", groupPassword,
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-port", strconv.Itoa(bus),
	)
	return clusterMember{node: node, bus: bus}
}

func meet(ctx context.Context, first *redis.Client, m clusterMember) error {
	host, port, err := net.SplitHostPort(m.node.Addr)
	if err != nil {
		return fmt.Errorf("meet: %w", err)
	}
	return first.Do(ctx, "CLUSTER", "MEET", host, port, m.bus).Err()
}

// complete reports whether a node knows all masters and the owners of all
// slots.
func complete(ctx context.Context, node *redis.Client, masters int) bool {
	info, err := node.ClusterInfo(ctx).Result()
	if err != nil {
		return false
	}
	lines := strings.Fields(info)
	return slices.Contains(lines, "cluster_state:ok") &&
		slices.Contains(lines, fmt.Sprintf("cluster_size:%d", masters))
}

// eventually waits until holds returns true, or fails the test when ctx ends.
func eventually(t testing.TB, ctx context.Context, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
