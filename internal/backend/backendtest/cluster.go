package backendtest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/local"
)

// RedisCluster is a cluster whose slots a test can move, and whose primaries it can kill.
type RedisCluster struct {
	*local.Cluster

	clients map[string]*redis.Client // by address; each for a single node
}

// LocalCluster runs a RedisCluster for the duration of the test.
func LocalCluster(t testing.TB) *RedisCluster {
	t.Helper()
	System(t)
	c, err := local.StartCluster(starting(t))
	Must(t, err)
	CloseAfter(t, c)
	all := &RedisCluster{Cluster: c, clients: map[string]*redis.Client{}}
	for _, n := range c.Nodes() {
		options, err := redis.ParseURL(n.URL)
		Must(t, err)
		options.DisableIdentity = true
		client := redis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		all.clients[n.Addr] = client
	}
	return all
}

// running returns the nodes that have not been killed.
func (c *RedisCluster) running() []*local.Redis {
	return slices.DeleteFunc(c.Nodes(), func(n *local.Redis) bool { return n.Pid() == 0 })
}

// Slot returns the slot of a key.
func (c *RedisCluster) Slot(t testing.TB, key string) int {
	t.Helper()
	slot, err := c.clients[c.running()[0].Addr].ClusterKeySlot(t.Context(), key).Result()
	Must(t, err)
	return int(slot)
}

// owner asks a node which primary has a slot. It returns that primary and a different one.
func owner(ctx context.Context, node *redis.Client, slot int) (with, other redis.Node, err error) {
	shards, err := node.ClusterShards(ctx).Result()
	for _, s := range shards {
		i := slices.IndexFunc(s.Nodes, func(n redis.Node) bool { return n.Role == "master" && n.Health == "online" })
		if i < 0 {
			continue
		}
		has := func(r redis.SlotRange) bool { return int(r.Start) <= slot && slot <= int(r.End) }
		if slices.ContainsFunc(s.Slots, has) {
			with = s.Nodes[i]
		} else {
			other = s.Nodes[i]
		}
	}
	return with, other, err
}

// Cut prevents later writes to a slot from reaching the replica of the slot's primary, so that a Failover
// loses them.
func (c *RedisCluster) Cut(t testing.TB, slot int) {
	t.Helper()
	ctx := starting(t)
	from, _, err := owner(ctx, c.clients[c.running()[0].Addr], slot)
	Must(t, err)
	for _, n := range c.running() {
		role, err := c.clients[n.Addr].Info(ctx, "replication").Result()
		Must(t, err)
		if !strings.Contains(role, "master_port:"+strconv.FormatInt(from.Port, 10)+"\r\n") {
			continue
		}
		Must(t, n.CutOff(ctx))
		return
	}
	t.Fatalf("the primary at %s has no replica", addr(from))
}

// Failover kills the primary of a slot. It returns when the replica has replaced the primary and
// all other nodes know that.
func (c *RedisCluster) Failover(t testing.TB, slot int) {
	t.Helper()
	ctx := starting(t)
	was, _, err := owner(ctx, c.clients[c.running()[0].Addr], slot)
	Must(t, err)
	for _, n := range c.running() { // by default, nodes wait for five seconds
		Must(t, c.clients[n.Addr].ConfigSet(ctx, "cluster-node-timeout", "500").Err())
	}
	for _, n := range c.running() {
		if n.Addr == addr(was) {
			n.Kill()
		}
	}
	for _, n := range c.running() {
		EventuallyWithin(t, startTimeout, "the node at "+n.Addr+" knows the new primary", func() bool {
			now, _, err := owner(ctx, c.clients[n.Addr], slot)
			info := c.clients[n.Addr].ClusterInfo(ctx).Val()
			return err == nil && now.ID != "" && now.ID != was.ID && strings.Contains(info, "cluster_state:ok")
		})
	}
}

func addr(n redis.Node) string { return net.JoinHostPort(n.IP, strconv.FormatInt(n.Port, 10)) }

// Migrate moves a slot to another primary, key by key, as redis-cli --cluster reshard
// --cluster-replace does. The scripts of v7 and later use keys that are derived from the lock's
// key, and such a key may exist on both primaries for a while. Migrate calls moved after each key,
// with the number of keys left.
func (c *RedisCluster) Migrate(t testing.TB, slot int, moved func(left int)) {
	t.Helper()
	ctx := starting(t)
	from, to, err := owner(ctx, c.clients[c.running()[0].Addr], slot)
	Must(t, err)
	source, target := c.clients[addr(from)], c.clients[addr(to)]
	setSlot := func(node *redis.Client, state, id string) {
		Must(t, node.Do(ctx, "CLUSTER", "SETSLOT", slot, state, id).Err())
	}
	setSlot(target, "IMPORTING", from.ID)
	setSlot(source, "MIGRATING", to.ID)
	for {
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 1000).Result()
		Must(t, err)
		if len(keys) == 0 {
			break
		}
		Must(t, source.Do(ctx, "MIGRATE", to.IP, to.Port, "", 0, 5000,
			"REPLACE", "AUTH", source.Options().Password, "KEYS", keys[0]).Err())
		moved(len(keys) - 1)
	}
	setSlot(target, "NODE", to.ID)
	setSlot(source, "NODE", to.ID)
	for _, n := range c.running() {
		if role := c.clients[n.Addr].Info(ctx, "replication").Val(); strings.Contains(role, "role:master") {
			setSlot(c.clients[n.Addr], "NODE", to.ID)
		}
	}
}
