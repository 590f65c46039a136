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

// A session is a lease that is kept alive, and known to be by this machine's clock.
//
// The client's own session keeps its lease alive, too, but tells neither when a
// renewal was sent nor, until up to a second later, that none was answered for the
// whole ttl.
type session struct {
	source *Source
	lease  clientv3.LeaseID
	ttl    time.Duration // what etcd granted
	ctx    context.Context
	end    context.CancelCauseFunc
	places atomic.Int64 // that there have been

	mu      sync.Mutex
	expires time.Time   // by this machine's clock
	alarm   *time.Timer // gives the lease up for lost
	failed  error       // why the last renewal got no answer, nil if it did
	users   int         // attempts and holds
	retired bool        // to be revoked when there are none
}

// sure is for how long the lease is relied upon. The rest is for what it takes to
// tell the holder, and for a clock that is slower than etcd's.
func (n *session) sure() time.Duration { return n.ttl - n.ttl/10 }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// keep renews the lease until the session ends. An error is not yet a loss: the
// lease has time left, and the next try may get through. A lease that was given up
// by this process is revoked; one that was lost is left to run out, for who held a
// lock by it may have been told just now.
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
		case ttl < n.ttl: // 0: etcd has given it up, or somebody has
			n.end(ErrLost)
		default:
			n.extend(sent.Add(n.sure()))
			next.Reset(time.Until(sent.Add(n.ttl / 3)))
		}
	}
}

// renew asks for another ttl, once. The client's own way asks again by itself, and
// so does not tell when it sent what was answered in the end.
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
	if n.expired() { // the answer came too late: who was told stays told
		return
	}
	n.expires = expires
	n.alarm.Reset(time.Until(expires))
}

// over reports whether the session has ended, and ends it if the lease has run
// out. It reads the clock, for timers may be late.
func (n *session) over() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.expired()
}

// expired does it for those who have locked mu.
func (n *session) expired() bool {
	if !time.Now().Before(n.expires) {
		n.end(errors.Join(ErrLost, n.failed))
	}
	return n.ctx.Err() != nil
}

// lost is what a session that has ended says to those who waited with it.
func (n *session) lost() error {
	return fmt.Errorf("etcdlock: while waiting: %w", context.Cause(n.ctx))
}

// enter counts a user, unless it is too late for one.
func (n *session) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.retired || n.expired() {
		return false
	}
	n.users++
	return true
}

// leave ends a use.
func (n *session) leave() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.users--
	n.endUnused()
}

// retire lets nobody new in. The lease is given up once nobody uses it any more.
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

// revoke gives the lease up as far as etcd can be reached.
func (n *session) revoke() {
	ctx, cancel := context.WithTimeout(context.Background(), n.ttl)
	defer cancel()
	_, _ = n.source.client.Revoke(ctx, n.lease) // it runs out anyway
}
