package lockservers

import (
	"context"
	"errors"
	"time"

	"oversell/internal/backend/coordination"
	"oversell/internal/locks"
)

// Terms are how a server times the leases that it gives. Those of the zero value are
// as they are asked for.
type Terms struct {
	Least time.Duration // it gives no shorter lease
	Unit  time.Duration // of which a lease is a multiple; 0: there is none
	Slack time.Duration // by how much later than its end a lease may be ended
}

// Lease is the lease that the server gives to whoever asks for the ttl.
func (t Terms) Lease(ttl time.Duration) time.Duration {
	if t.Unit > 0 {
		ttl = (ttl + t.Unit - 1) / t.Unit * t.Unit
	}
	return max(ttl, t.Least)
}

const (
	// etcdSlack covers that etcd looks for leases that ended every half second, and
	// then has its members agree that they did. A second was seen to pass.
	etcdSlack = 1500 * time.Millisecond

	// zooKeeperSlack covers what the end of a session takes, besides the tick to
	// which the server rounds it up.
	zooKeeperSlack = 500 * time.Millisecond

	// zooKeeperAsked is less than the shortest session that a server gives, unless
	// its ticks are very short. The client waits for the server's answer for a few
	// times what is asked for: a busy server needs more than moments.
	zooKeeperAsked = 200 * time.Millisecond
)

// Ask asks etcd and ZooKeeper, where there is an address of them, on what terms they
// give leases. The errors wrap coordination.ErrUnreachable when nobody answers.
func Ask(ctx context.Context, a Addresses) (map[locks.Need]Terms, error) {
	terms := make(map[locks.Need]Terms)
	if len(a.Etcd) > 0 {
		least, err := coordination.LeastLease(ctx, a.Etcd)
		if err != nil {
			return nil, err
		}
		terms[locks.NeedsEtcd] = Terms{Least: least, Unit: time.Second, Slack: etcdSlack}
	}
	if len(a.ZooKeeper) > 0 {
		conn, err := coordination.DialZooKeeper(ctx, a.ZooKeeper, zooKeeperAsked)
		if err != nil {
			return nil, err
		}
		conn.Close()
		if conn.Timeout <= 0 {
			return nil, errors.New("zookeeper did not say which timeout its sessions have")
		}
		// By default the shortest session takes two ticks.
		terms[locks.NeedsZooKeeper] = Terms{Least: conn.Timeout, Slack: conn.Timeout/2 + zooKeeperSlack}
	}
	return terms, nil
}
