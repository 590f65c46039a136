package lockservers

import (
	"context"
	"errors"
	"slices"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/coordination"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/etcdlock"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/zklock"
)

// Clients contains the connections of one process to lock servers.
type Clients struct {
	options catalog.Options // only with the connections, and with Later for servers that are dialled at their first use
	closers []func() error
}

// nodePool is the maximum number of connections of a process to each of Redlock's nodes.
const nodePool = 16

// dial connects to the servers for a need.
func (c *Clients) dial(ctx context.Context, need catalog.Need, addresses []string, ttl time.Duration) error {
	switch need {
	case catalog.NeedsNodes:
		for _, url := range addresses {
			rdb, err := backend.NewRedis(url, nodePool) // does not dial, because some nodes may be down
			if err != nil {
				return err
			}
			c.options.Nodes, c.closers = append(c.options.Nodes, rdb), append(c.closers, rdb.Close)
		}
	case catalog.NeedsEtcd:
		client, err := coordination.DialEtcd(ctx, addresses)
		if err != nil {
			return err
		}
		source := etcdlock.NewSource(client, ttl)
		c.options.Etcd = func(key string) guard.Lock { return lease.New(source, key) }
		c.closers = append(c.closers, client.Close, source.Close)
	case catalog.NeedsZooKeeper:
		conn, err := coordination.DialZooKeeper(ctx, addresses, ttl)
		if err != nil {
			return err
		}
		source := zklock.NewSource(conn.Conn, conn.Timeout)
		c.options.ZooKeeper = func(key string) guard.Lock { return lease.New(source, key) }
		c.closers = append(c.closers, func() error { conn.Close(); return nil }, source.Close)
	}
	return nil
}

// dialLater sets Later so that the servers for a need are dialled when a guard is first used.
func (c *Clients) dialLater(s *Servers, need catalog.Need, ttl time.Duration) {
	connected := newOnDemand(func(ctx context.Context) (*Clients, error) {
		there, err := s.server(ctx, need)
		if err != nil {
			return nil, err
		}
		return Running(Addresses{need: there.addresses}).Dial(ctx, ttl)
	})
	c.closers = append(c.closers, connected.Close)
	c.options.Later[need] = func(ctx context.Context, o catalog.Options) (catalog.Options, error) {
		if _, err := s.server(ctx, need); err != nil { // the server may have ended in the meantime
			return o, err
		}
		there, err := connected.get(ctx)
		if err != nil {
			return o, err
		}
		return there.Add(o), nil
	}
}

// Add returns the options of a guard with these connections added.
func (c *Clients) Add(o catalog.Options) catalog.Options {
	own := c.options
	o.Nodes, o.Etcd, o.ZooKeeper, o.Later = own.Nodes, own.Etcd, own.ZooKeeper, own.Later
	return o
}

// Close closes the connections, the last one first. It may be called more than once.
func (c *Clients) Close() (err error) {
	for _, end := range slices.Backward(c.closers) {
		err = errors.Join(err, end())
	}
	c.closers = nil
	return err
}
