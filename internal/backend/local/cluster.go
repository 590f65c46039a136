package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

const (
	// clusterPrimaries is the number of primaries of a Cluster. Each has one replica.
	clusterPrimaries = 3

	// clusterSlots is the number of hash slots of every Redis cluster.
	clusterSlots = 16384

	// nodeTimeout is the time for which a node may be silent before the other nodes consider it down and
	// let its replica take over. On a busy machine even a healthy node may be silent for a second or two.
	nodeTimeout = 5 * time.Second

	// hurriedTimeout replaces nodeTimeout until the cluster is ready, because nodes exchange their
	// knowledge of the cluster after half of the timeout.
	hurriedTimeout = 400 * time.Millisecond
)

// Cluster is a private Redis cluster: three primaries, each with a third of the slots and one
// replica. No other program on this machine knows its password.
type Cluster struct {
	nodes    []*Redis // the primaries, and then their replicas in the same order
	buses    []int    // the nodes' ports for messages between them
	password string
}

// StartCluster runs a private cluster. It returns when all nodes agree on the owners of the slots,
// and the replicas are in sync. That takes about two seconds. It needs Redis 7.
//
// The error wraps ErrMissing if redis-server is not installed.
func StartCluster(ctx context.Context) (*Cluster, error) {
	if _, err := RedisPath(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, groupLimit)
	defer cancel()
	const nodes = 2 * clusterPrimaries
	c := &Cluster{nodes: make([]*Redis, nodes), buses: make([]int, nodes), password: newSecret()}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(failed(ctx, "start a local cluster (it needs Redis 7)", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context) error {
	var starting errgroup.Group
	for i := range c.nodes {
		starting.Go(func() (err error) {
			c.nodes[i], err = c.startNode(ctx, &c.buses[i])
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	for i, n := range c.nodes {
		if err := prepareNode(ctx, n, i); err != nil {
			return fmt.Errorf("prepare the node at %s: %w", n.Addr, err)
		}
	}
	for i, n := range c.nodes {
		for j, other := range c.nodes[:i] {
			if err := meet(ctx, n, other, c.buses[j]); err != nil {
				return fmt.Errorf("introduce the node at %s to %s: %w", other.Addr, n.Addr, err)
			}
		}
	}
	for i, n := range c.nodes[clusterPrimaries:] {
		if err := follow(ctx, n, c.nodes[i]); err != nil {
			return err
		}
	}
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	for _, n := range c.nodes {
		err := n.client.Do(ctx, "CONFIG", "SET", "cluster-node-timeout", nodeTimeout.Milliseconds(),
			"cluster-replica-no-failover", "no").Err()
		if err != nil {
			return fmt.Errorf("set when the node at %s takes over: %w", n.Addr, err)
		}
	}
	return nil
}

// startNode starts a node, and stores its port for messages between the nodes in bus.
func (c *Cluster) startNode(ctx context.Context, bus *int) (*Redis, error) {
	return startRedis(ctx, c.password, Command{
		Prepare: func(_ context.Context, dir string, _ int) (err error) {
			if *bus, err = FreePort(); err != nil { // each attempt uses a different port
				return err
			}
			return writeRedisConf(dir, c.password)
		},
		Args: func(dir string, port int) []string { return append(redisArgs(dir, port), clusterArgs(*bus)...) },
		// A node syncs nodes.conf to disk at every change, and does not answer while it does so.
		InMemory: true,
	})
}

func clusterArgs(bus int) []string {
	return []string{
		"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0",
		// A node announces a replica to clients only after the replica has received something.
		"--repl-ping-replica-period", "1",
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-port", strconv.Itoa(bus),
		"--cluster-node-timeout", strconv.FormatInt(hurriedTimeout.Milliseconds(), 10),
		// A replica always follows the same primary. It takes over even if it has not heard from
		// its primary for a long time.
		"--cluster-allow-replica-migration", "no",
		"--cluster-replica-validity-factor", "0",
		// On a busy machine, a primary may seem to have failed before the cluster is ready.
		"--cluster-replica-no-failover", "yes",
	}
}

// prepareNode gives node number i an epoch that no other node has. If the node is a primary,
// prepareNode also gives it its slots.
func prepareNode(ctx context.Context, n *Redis, i int) error {
	if err := n.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
		return err
	}
	if i >= clusterPrimaries {
		return nil
	}
	first, next := clusterSlots*i/clusterPrimaries, clusterSlots*(i+1)/clusterPrimaries
	return n.client.ClusterAddSlotsRange(ctx, first, next-1).Err()
}

// meet introduces another node to n.
func meet(ctx context.Context, n, other *Redis, otherBus int) error {
	host, port, err := net.SplitHostPort(other.Addr)
	if err != nil {
		return err
	}
	return n.client.Do(ctx, "CLUSTER", "MEET", host, port, otherBus).Err()
}

// follow makes n the replica of a primary, once n knows the primary.
func follow(ctx context.Context, n, primary *Redis) error {
	id, err := primary.client.ClusterMyID(ctx).Result()
	if err != nil {
		return fmt.Errorf("ask the node at %s for its id: %w", primary.Addr, err)
	}
	return await(ctx, "the node at "+n.Addr+" follows "+primary.Addr, func() error {
		return n.client.ClusterReplicate(ctx, id).Err()
	})
}

// awaitReady waits until all nodes know the whole cluster, and every replica is ready to take over.
func (c *Cluster) awaitReady(ctx context.Context) error {
	for _, n := range c.nodes {
		err := await(ctx, "the node at "+n.Addr+" knows the cluster", func() error { return knowsAll(ctx, n) })
		if err != nil {
			return err
		}
	}
	for i, n := range c.nodes[clusterPrimaries:] {
		if err := awaitOffset(ctx, n.client, c.nodes[i].client); err != nil {
			return err
		}
	}
	return nil
}

// knowsAll returns nil if a node reports that the cluster works and knows a primary and a replica
// for every slot.
func knowsAll(ctx context.Context, n *Redis) error {
	info, err := n.client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !slices.Contains(strings.Fields(info), "cluster_state:ok") {
		return errors.New("its cluster_state is not ok")
	}
	shards, err := n.client.ClusterShards(ctx).Result()
	if err != nil {
		return err
	}
	covered := 0
	for _, s := range shards {
		if len(s.Slots) == 0 {
			continue // this node does not follow a primary yet
		}
		if len(s.Nodes) != 2 || slices.ContainsFunc(s.Nodes, func(n redis.Node) bool { return n.Health != "online" }) {
			return fmt.Errorf("it says of the nodes of one primary: %+v", s.Nodes)
		}
		for _, r := range s.Slots {
			covered += int(r.End - r.Start + 1)
		}
	}
	if covered != clusterSlots {
		return fmt.Errorf("it knows the owners of %d of %d slots", covered, clusterSlots)
	}
	return nil
}

// URL returns a value for backend.DialRedis and -redis. It contains the password and the addresses
// of the nodes that started as primaries: any one of them that is up knows all the other nodes.
func (c *Cluster) URL() string {
	var addrs []string
	for _, n := range c.nodes[:clusterPrimaries] {
		addrs = append(addrs, n.Addr)
	}
	return "redis://:" + c.password + "@" + strings.Join(addrs, ",")
}

// Nodes returns the servers: first those that started as primaries, then their replicas, in the
// same order.
func (c *Cluster) Nodes() []*Redis { return slices.Clone(c.nodes) }

// Close stops all servers and removes their folders. Calls after the first do nothing.
func (c *Cluster) Close() error { return closeAll(c.nodes...) }
