package lockservers

import (
	"context"
	"errors"
	"time"

	"oversell/internal/backend/coordination"
	"oversell/internal/catalog"
)

// Terms describes the lengths of the leases that a server grants. With the zero value, a lease
// lasts exactly as long as requested.
type Terms struct {
	Least time.Duration // the shortest lease that the server grants
	Unit  time.Duration // a lease is rounded up to a multiple of Unit, unless it is 0
	Slack time.Duration // maximum time between the end of a lease and its expiry at the server
}

// Lease returns the lease that the server grants for a requested ttl.
func (t Terms) Lease(ttl time.Duration) time.Duration {
	if t.Unit > 0 {
		ttl = (ttl + t.Unit - 1) / t.Unit * t.Unit
	}
	return max(ttl, t.Least)
}

const (
	// etcdSlack is needed because etcd looks for expired leases only every half second, and its
	// members take time to agree on them. Up to a second was observed.
	etcdSlack = 1500 * time.Millisecond

	// zooKeeperSlack allows for the time that the server takes to end a session, in addition to the
	// tick to which it rounds the end up.
	zooKeeperSlack = 500 * time.Millisecond

	// zooKeeperAsked is a requested session timeout that is shorter than any timeout that a server
	// grants, unless the server is set up with a very short one.
	zooKeeperAsked = 200 * time.Millisecond
)

// Ask asks etcd and ZooKeeper, if a contains their addresses, for the terms of their leases. If
// there is no answer, the error wraps backend.ErrUnreachable.
func Ask(ctx context.Context, a Addresses) (map[catalog.Need]Terms, error) {
	terms := make(map[catalog.Need]Terms)
	if etcd := a[catalog.NeedsEtcd]; len(etcd) > 0 {
		least, err := coordination.LeastLease(ctx, etcd)
		if err != nil {
			return nil, err
		}
		terms[catalog.NeedsEtcd] = Terms{Least: least, Unit: time.Second, Slack: etcdSlack}
	}
	if zooKeeper := a[catalog.NeedsZooKeeper]; len(zooKeeper) > 0 {
		conn, err := coordination.DialZooKeeper(ctx, zooKeeper, zooKeeperAsked)
		if err != nil {
			return nil, err
		}
		conn.Close()
		if conn.Timeout <= 0 {
			return nil, errors.New("zookeeper did not say which timeout its sessions have")
		}
		// The default minimum session timeout is two ticks.
		terms[catalog.NeedsZooKeeper] = Terms{Least: conn.Timeout, Slack: conn.Timeout/2 + zooKeeperSlack}
	}
	return terms, nil
}
