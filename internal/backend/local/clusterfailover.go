package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// shortTimeout is nodeTimeout while a primary is killed. With a shorter one a healthy
	// node of a busy machine may seem down as well.
	shortTimeout = 500 * time.Millisecond

	// promotionLimit bounds Failover. Voting takes about a second.
	promotionLimit = 30 * time.Second
)

// Aim sets the key whose primary the next Cut and Failover are about: the one that has its slot.
// Until the first call it is slot 0. It must not be called between a Cut and the Heal after it.
func (c *Cluster) Aim(ctx context.Context, key string) error {
	n, err := c.anyNode()
	if err != nil {
		return err
	}
	slot, err := n.client.ClusterKeySlot(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("ask for the slot of %s: %w", key, err)
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	c.slot = int(slot)
	return nil
}

// Cut keeps all later writes to the slot from the replica of its primary: a Failover loses them.
// The replica has all writes from before. restore lets it catch up; it does nothing after a
// Failover.
func (c *Cluster) Cut(ctx context.Context) (restore func(), err error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, cutLimit)
	defer cancel()
	primary, replica, err := c.pair(ctx)
	if err == nil {
		err = await(ctx, "the replica is in sync", func() error { return replica.inSync(ctx, primary) })
	}
	if err == nil {
		err = c.sever(ctx, replica)
	}
	if err != nil {
		return nil, failed(ctx, "cut off the replica", err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), cutLimit)
		defer cancel()
		_ = replica.mayFollow(ctx, c.password) // an error means that it is gone
	}, nil
}

// sever closes the connection of a replica to its primary for good: it connects again at once,
// with a password that the primary refuses.
func (c *Cluster) sever(ctx context.Context, replica *ClusterNode) error {
	if err := replica.mayFollow(ctx, "cut"); err != nil {
		return err
	}
	return await(ctx, "the replica's connection is killed", func() error {
		killed, err := replica.client.ClientKillByFilter(ctx, "TYPE", "master").Result()
		if err == nil && killed == 0 {
			return errors.New("it has none")
		}
		return err
	})
}

// mayFollow sets the password with which a replica logs in to its primary.
func (n *ClusterNode) mayFollow(ctx context.Context, password string) error {
	if err := n.client.ConfigSet(ctx, "masterauth", password).Err(); err != nil {
		return fmt.Errorf("change the password of the node at %s: %w", n.Addr, err)
	}
	return nil
}

// Failover kills the primary of the slot, and returns when its replica has replaced it and all
// other nodes say so. That takes one to two seconds. If ctx is cancelled first, the replica
// replaces it later.
func (c *Cluster) Failover(ctx context.Context) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, promotionLimit)
	defer cancel()
	if err := c.replacePrimary(ctx); err != nil {
		return failed(ctx, "fail over", err)
	}
	return nil
}

func (c *Cluster) replacePrimary(ctx context.Context) (err error) {
	primary, replica, err := c.pair(ctx)
	if err != nil {
		return err
	}
	defer func() { // a healthy node must not seem down later, even if this failover fails
		restoring, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
		defer cancel()
		err = errors.Join(err, c.setTimeouts(restoring, nodeTimeout))
	}()
	if err := c.setTimeouts(ctx, shortTimeout); err != nil {
		return err
	}
	primary.Kill()
	for _, n := range c.running() {
		err := await(ctx, "the node at "+n.Addr+" knows the new primary", func() error { return n.serves(ctx, c.slot, replica) })
		if err != nil {
			return err
		}
	}
	return replica.mayFollow(ctx, c.password) // it is a primary now, and may be a replica again
}

// setTimeouts sets the timeout of all running nodes, even if it fails at some of them.
func (c *Cluster) setTimeouts(ctx context.Context, timeout time.Duration) error {
	var errs []error
	for _, n := range c.running() {
		errs = append(errs, n.setTimeout(ctx, timeout))
	}
	return errors.Join(errs...)
}

// Heal starts the servers again that were killed, as replicas of those that replaced them, and
// returns when every node could serve every client and every replica could take over.
func (c *Cluster) Heal(ctx context.Context) error {
	c.turn.Lock()
	defer c.turn.Unlock()
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	if err := c.heal(ctx); err != nil {
		return failed(ctx, "heal the cluster", err)
	}
	return nil
}

func (c *Cluster) heal(ctx context.Context) error {
	for _, n := range c.nodes {
		if n.Pid() != 0 {
			continue
		}
		if err := await(ctx, "the node at "+n.Addr+" runs", func() error { return n.Restart(ctx) }); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := await(ctx, "the node at "+n.Addr+" knows the cluster", func() error { return n.knowsAll(ctx) }); err != nil {
			return err
		}
	}
	for i := range clusterPrimaries {
		err := await(ctx, "a replica is in sync", func() error {
			primary, replica, err := c.pairOf(ctx, clusterSlots*i/clusterPrimaries)
			if err != nil {
				return err
			}
			return replica.inSync(ctx, primary)
		})
		if err != nil {
			return err
		}
	}
	return c.setTimeouts(ctx, nodeTimeout) // a restarted node began with hurriedTimeout
}

// pair returns the primary of the slot, and its replica.
func (c *Cluster) pair(ctx context.Context) (primary, replica *ClusterNode, err error) {
	return c.pairOf(ctx, c.slot)
}

func (c *Cluster) pairOf(ctx context.Context, slot int) (primary, replica *ClusterNode, err error) {
	n, err := c.anyNode()
	if err != nil {
		return nil, nil, err
	}
	shard, err := n.shard(ctx, slot)
	if err != nil {
		return nil, nil, err
	}
	for _, of := range shard.Nodes {
		known := c.at(of)
		switch {
		case known == nil || known.Pid() == 0:
		case of.Role == "master":
			primary = known
		default:
			replica = known
		}
	}
	if primary == nil || replica == nil {
		return nil, nil, fmt.Errorf("slot %d has no primary with a replica, it needs Heal", slot)
	}
	return primary, replica, nil
}

// shard is what a node says of the primary of a slot.
func (n *ClusterNode) shard(ctx context.Context, slot int) (redis.ClusterShard, error) {
	shards, err := n.client.ClusterShards(ctx).Result()
	if err != nil {
		return redis.ClusterShard{}, err
	}
	for _, s := range shards {
		for _, r := range s.Slots {
			if int64(slot) >= r.Start && int64(slot) <= r.End {
				return s, nil
			}
		}
	}
	return redis.ClusterShard{}, fmt.Errorf("the node at %s knows nobody with slot %d", n.Addr, slot)
}

// serves returns nil if the node says that the cluster works, and that primary has the slot.
func (n *ClusterNode) serves(ctx context.Context, slot int, primary *ClusterNode) error {
	if err := n.stateOK(ctx); err != nil {
		return err
	}
	shard, err := n.shard(ctx, slot)
	if err != nil {
		return err
	}
	for _, of := range shard.Nodes {
		if of.Role == "master" && addr(of) == primary.Addr {
			return nil
		}
	}
	return fmt.Errorf("it says of slot %d: %+v", slot, shard.Nodes)
}

func addr(n redis.Node) string { return net.JoinHostPort(n.IP, strconv.FormatInt(n.Port, 10)) }

// at is the node of this cluster that another one describes, or nil.
func (c *Cluster) at(n redis.Node) *ClusterNode {
	i := slices.IndexFunc(c.nodes, func(one *ClusterNode) bool { return one.Addr == addr(n) })
	if i < 0 {
		return nil
	}
	return c.nodes[i]
}

// running returns the nodes that have not been killed.
func (c *Cluster) running() []*ClusterNode {
	return slices.DeleteFunc(c.Nodes(), func(n *ClusterNode) bool { return n.Pid() == 0 })
}

func (c *Cluster) anyNode() (*ClusterNode, error) {
	running := c.running()
	if len(running) == 0 {
		return nil, fmt.Errorf("no node of the cluster runs: %w", os.ErrProcessDone)
	}
	return running[0], nil
}
