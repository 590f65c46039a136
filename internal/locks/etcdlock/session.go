package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"oversell/internal/locks/lease"
)

// A session is a lease that is kept alive, and tracked by this machine's clock.
//
// The client's own session keeps its lease alive too. But it does not say when a
// renewal was sent, and reports up to a second late that none was answered for a
// whole ttl.
type session struct {
	*lease.Session
	source *Source
	lease  clientv3.LeaseID
	places atomic.Int64 // how many there have been

	mu      sync.Mutex
	users   int  // attempts and holds
	retired bool // revoke it once there are no users
}

// errUnknown says that the lease has expired in etcd, or that somebody revoked it.
var errUnknown = fmt.Errorf("%w: etcd does not know the lease", ErrLost)

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// keep renews the lease until the session ends. A lease that this process gives up is
// revoked; a lost one is left to expire, as its holders may only just have been told.
func (n *session) keep() {
	n.Keep(n.renew)
	if cause := context.Cause(n.Ctx); errors.Is(cause, errUnused) || errors.Is(cause, errClosed) {
		n.revoke()
	}
}

// renew asks for another ttl, once. The client's own method retries by itself, and
// does not say when it sent the request that was answered.
func (n *session) renew() error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(n.Ctx), n.TTL/4)
	defer cancel()
	stream, err := pb.NewLeaseClient(n.source.client.ActiveConnection()).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(n.lease)}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	if seconds(answer.GetTTL()) < n.TTL { // 0: it has expired or was revoked
		return errUnknown
	}
	return nil
}

// lost returns the error for those who waited when the session ended.
func (n *session) lost() error {
	return fmt.Errorf("etcdlock: while waiting: %w", context.Cause(n.Ctx))
}

// enter counts a user, unless the session is over or retired.
func (n *session) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.retired || n.Over() {
		return false
	}
	n.users++
	return true
}

// leave ends what enter or newSession began.
func (n *session) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users--
	n.endUnused()
}

// retire admits no new users. The lease is revoked once nobody uses it any more.
func (n *session) retire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.retired = true
	n.endUnused()
}

func (n *session) endUnused() {
	if n.retired && n.users == 0 {
		n.End(fmt.Errorf("%w: %w", ErrLost, errUnused))
	}
}

// revoke revokes the lease if etcd can be reached.
func (n *session) revoke() {
	ctx, cancel := context.WithTimeout(context.Background(), n.TTL)
	defer cancel()
	_, _ = n.source.client.Revoke(ctx, n.lease) // it expires anyway
}
