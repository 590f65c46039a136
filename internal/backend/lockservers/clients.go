package lockservers

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend"
	"oversell/internal/backend/coordination"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/etcdlock"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/redlock"
	"oversell/internal/locks/zklock"
)

// Clients contains the connections of one process to lock servers.
type Clients struct {
	locks map[catalog.Need]catalog.Connect
	all   []*onDemand[*connection]
}

// Add returns the options of a guard with these connections added.
func (c *Clients) Add(o catalog.Options) catalog.Options {
	o.Locks = c.locks
	return o
}

// Close closes the connections. It may be called more than once.
func (c *Clients) Close() (err error) {
	for _, one := range c.all {
		err = errors.Join(err, one.Close())
	}
	return err
}

// connection contains the connections to the servers for one need.
type connection struct {
	lock    func(key string) guard.Lock
	closers []func() error
}

// Close closes the connections, the last one first.
func (c *connection) Close() (err error) {
	for _, end := range slices.Backward(c.closers) {
		err = errors.Join(err, end())
	}
	return err
}

// dial connects to the servers for a need.
func dial(ctx context.Context, need catalog.Need, addresses []string, ttl time.Duration) (*connection, error) {
	switch need {
	case catalog.NeedsEtcd:
		client, err := coordination.DialEtcd(ctx, addresses)
		if err != nil {
			return nil, err
		}
		source := etcdlock.NewSource(client, ttl)
		lock := func(key string) guard.Lock { return lease.New(source, key) }
		return &connection{lock, []func() error{client.Close, source.Close}}, nil
	case catalog.NeedsZooKeeper:
		conn, err := coordination.DialZooKeeper(ctx, addresses, ttl)
		if err != nil {
			return nil, err
		}
		source := zklock.NewSource(conn.Conn, conn.Timeout)
		lock := func(key string) guard.Lock { return lease.New(source, key) }
		return &connection{lock, []func() error{func() error { conn.Close(); return nil }, source.Close}}, nil
	}
	return dialNodes(addresses, ttl)
}

// nodePool is the maximum number of connections of a process to each of Redlock's nodes.
const nodePool = 16

// dialNodes does not wait for an answer, because some nodes may be down.
func dialNodes(urls []string, ttl time.Duration) (*connection, error) {
	c := &connection{}
	var nodes []redis.Cmdable
	for _, url := range urls {
		rdb, err := backend.NewRedis(url, nodePool)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		nodes, c.closers = append(nodes, rdb), append(c.closers, rdb.Close)
	}
	c.lock = func(key string) guard.Lock { return quorumLock{redlock.New(nodes, key, ttl)} }
	return c, nil
}

const (
	// quorumTries is the number of tries after which TryLock returns an error if too few nodes
	// answer. On a busy machine, all nodes are sometimes late at once.
	quorumTries = 4
	// quorumDelay is the longest pause between two of these tries.
	quorumDelay = 50 * time.Millisecond
)

// quorumLock is a Redlock that tries again if too few nodes answered, instead of failing
// the caller at once.
type quorumLock struct{ *redlock.Mutex }

func (l quorumLock) TryLock(ctx context.Context) (ok bool, err error) {
	for try := range quorumTries {
		if try > 0 {
			// Random, so that callers that collided do not collide again.
			if err := guard.Sleep(ctx, rand.N(quorumDelay)); err != nil {
				return false, err
			}
		}
		ok, err = l.Mutex.TryLock(ctx)
		if !errors.Is(err, redlock.ErrNoQuorum) {
			return ok, err
		}
	}
	return false, err
}
