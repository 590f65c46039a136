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
	nodes    []*ClusterNode // the primaries, and then their replicas in the same order
	password string
}

// ClusterNode is one server of a Cluster. It can be killed like any other Server.
type ClusterNode struct {
	*Server

	client *redis.Client
	bus    int // the port for messages between the nodes
}

// StartCluster runs a private cluster. It returns when all nodes agree on the owners of the slots,
// and the replicas are in sync. That takes about two seconds. It needs Redis 7.
//
// The error wraps ErrMissing if redis-server is not installed.
func StartCluster(ctx context.Context) (*Cluster, error) {
	path, err := RedisPath()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, groupLimit)
	defer cancel()
	c := &Cluster{password: newSecret()}
	if err := c.start(ctx, path); err != nil {
		return nil, errors.Join(failed(ctx, "start a local cluster (it needs Redis 7)", err), c.Close())
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, path string) error {
	c.nodes = make([]*ClusterNode, 2*clusterPrimaries)
	var starting errgroup.Group
	for i := range c.nodes {
		starting.Go(func() (err error) {
			c.nodes[i], err = startClusterNode(ctx, path, c.password)
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return err
	}
	for i, n := range c.nodes {
		if err := n.prepare(ctx, i); err != nil {
			return fmt.Errorf("prepare the node at %s: %w", n.Addr, err)
		}
	}
	for i, n := range c.nodes {
		for _, other := range c.nodes[:i] {
			if err := n.meet(ctx, other); err != nil {
				return fmt.Errorf("introduce the node at %s to %s: %w", other.Addr, n.Addr, err)
			}
		}
	}
	for i, n := range c.nodes[clusterPrimaries:] {
		if err := n.follow(ctx, c.nodes[i]); err != nil {
			return err
		}
	}
	if err := c.awaitReady(ctx); err != nil {
		return err
	}
	for _, n := range c.nodes {
		ms := strconv.FormatInt(nodeTimeout.Milliseconds(), 10)
		if err := n.client.ConfigSet(ctx, "cluster-node-timeout", ms).Err(); err != nil {
			return fmt.Errorf("set how long the node at %s waits for others: %w", n.Addr, err)
		}
		if err := n.client.ConfigSet(ctx, "cluster-replica-no-failover", "no").Err(); err != nil {
			return fmt.Errorf("let the node at %s take over: %w", n.Addr, err)
		}
	}
	return nil
}

func startClusterNode(ctx context.Context, path, password string) (_ *ClusterNode, err error) {
	n := &ClusterNode{}
	n.Server, err = Start(ctx, Command{
		Name: "redis-server",
		Path: path,
		Prepare: func(_ context.Context, dir string, _ int) (err error) {
			if n.bus, err = FreePort(); err != nil { // each attempt uses a different port
				return err
			}
			return writeRedisConf(dir, password)
		},
		Args:    n.args,
		Ready:   func(c net.Conn) error { return AnswersPing(c, password) },
		Timeout: 10 * time.Second,
		// A node syncs nodes.conf to disk at every change, and does not answer while it does so.
		InMemory: true,
	})
	if err != nil {
		return nil, err
	}
	n.client = redis.NewClient(clientOptions(n.Addr, password))
	return n, nil
}

func (n *ClusterNode) args(dir string, port int) []string {
	return append(redisArgs(dir, port),
		"--repl-diskless-sync", "yes",
		"--repl-diskless-sync-delay", "0",
		// A node announces a replica to clients only after the replica has received something.
		"--repl-ping-replica-period", "1",
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-port", strconv.Itoa(n.bus),
		"--cluster-node-timeout", strconv.FormatInt(hurriedTimeout.Milliseconds(), 10),
		// A replica always follows the same primary. It takes over even if it has not heard from
		// its primary for a long time.
		"--cluster-allow-replica-migration", "no",
		"--cluster-replica-validity-factor", "0",
		// On a busy machine, a primary may seem to have failed before the cluster is ready.
		"--cluster-replica-no-failover", "yes",
	)
}

// prepare gives node number i an epoch that no other node has. If the node is a primary, prepare
// also gives it its slots.
func (n *ClusterNode) prepare(ctx context.Context, i int) error {
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
func (n *ClusterNode) meet(ctx context.Context, other *ClusterNode) error {
	host, port, err := net.SplitHostPort(other.Addr)
	if err != nil {
		return err
	}
	return n.client.Do(ctx, "CLUSTER", "MEET", host, port, other.bus).Err()
}

// follow makes n the replica of a primary, once n knows the primary.
func (n *ClusterNode) follow(ctx context.Context, primary *ClusterNode) error {
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
		err := await(ctx, "the node at "+n.Addr+" knows the cluster", func() error { return n.knowsAll(ctx) })
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

// knowsAll returns nil if the node reports that the cluster works and knows a primary and a replica
// for every slot.
func (n *ClusterNode) knowsAll(ctx context.Context) error {
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
func (c *Cluster) Nodes() []*ClusterNode { return slices.Clone(c.nodes) }

// Close stops all servers and removes their folders. Calls after the first do nothing.
func (c *Cluster) Close() error {
	var servers []*Server
	for _, n := range c.nodes {
		if n != nil { // the node was started
			_ = n.client.Close() // at the second Close of the cluster, it is already closed
			servers = append(servers, n.Server)
		}
	}
	return closeAll(servers)
}
