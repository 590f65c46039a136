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
)

// A session is a lease that is kept alive, and tracked by this machine's clock.
//
// The client's own session keeps its lease alive too. But it does not say when a
// renewal was sent, and reports up to a second late that none was answered for a
// whole ttl.
type session struct {
	source *Source
	lease  clientv3.LeaseID
	ttl    time.Duration // what etcd granted
	ctx    context.Context
	end    context.CancelCauseFunc
	places atomic.Int64 // how many there have been

	mu      sync.Mutex
	expires time.Time   // by this machine's clock
	alarm   *time.Timer // declares the lease lost
	failed  error       // the error of the last renewal, nil if it got an answer
	users   int         // attempts and holds
	retired bool        // revoke it once there are no users
}

// errUnknown says that the lease has expired in etcd, or that somebody revoked it.
var errUnknown = fmt.Errorf("%w: etcd does not know the lease", ErrLost)

// sure returns how much of the lease is used. The rest is a margin for telling the
// holder, and for a clock that is slower than etcd's.
func (n *session) sure() time.Duration { return n.ttl - n.ttl/10 }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// keep renews the lease until the session ends. An error is not yet a loss: the
// lease has time left, and the next attempt may succeed. A lease that this process
// gives up is revoked; a lost one is left to expire, as its holders may only just
// have been told.
func (n *session) keep(sent time.Time) {
	defer n.alarm.Stop()
	next := time.NewTimer(time.Until(sent.Add(n.ttl / 3)))
	defer next.Stop()
	for {
		select {
		case <-n.ctx.Done():
			if cause := context.Cause(n.ctx); errors.Is(cause, errUnused) || errors.Is(cause, errClosed) {
				n.revoke()
			}
			return
		case <-next.C:
		}
		sent = time.Now()
		ttl, err := n.renew()
		switch {
		case err != nil:
			n.note(err)
			next.Reset(n.ttl / 10)
		case ttl < n.ttl: // 0: it has expired or was revoked
			n.end(errUnknown)
		default:
			n.extend(sent.Add(n.sure()))
			next.Reset(time.Until(sent.Add(n.ttl / 3)))
		}
	}
}

// renew asks for another ttl, once. The client's own method retries by itself, and
// does not say when it sent the request that was answered.
func (n *session) renew() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(n.ctx), n.ttl/4)
	defer cancel()
	stream, err := pb.NewLeaseClient(n.source.client.ActiveConnection()).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(n.lease)}); err != nil {
		return 0, err
	}
	answer, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return seconds(answer.GetTTL()), nil
}

func (n *session) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = err
}

func (n *session) extend(expires time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = nil
	if n.expired() { // the answer came too late: the holder has been told of the loss
		return
	}
	n.expires = expires
	n.alarm.Reset(time.Until(expires))
}

// over reports whether the session has ended, and ends it if the lease has run
// out. It reads the clock, as timers may be late.
func (n *session) over() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.expired()
}

// expired is over for callers that have locked mu.
func (n *session) expired() bool {
	if !time.Now().Before(n.expires) {
		n.end(errors.Join(ErrLost, n.failed))
	}
	return n.ctx.Err() != nil
}

// lost returns the error for those who waited when the session ended.
func (n *session) lost() error {
	return fmt.Errorf("etcdlock: while waiting: %w", context.Cause(n.ctx))
}

// enter counts a user, unless the session is over or retired.
func (n *session) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.retired || n.expired() {
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
		n.end(fmt.Errorf("%w: %w", ErrLost, errUnused))
	}
}

// revoke revokes the lease if etcd can be reached.
func (n *session) revoke() {
	ctx, cancel := context.WithTimeout(context.Background(), n.ttl)
	defer cancel()
	_, _ = n.source.client.Revoke(ctx, n.lease) // it expires anyway
}
