package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"
)

// A session is a lease that is kept alive, and known to be by this machine's clock.
//
// It is the client's session by name only. That one keeps its lease alive, too, but
// tells neither when a renewal was sent nor, until up to a second later, that none
// was answered for the whole ttl.
type session struct {
	source   *Source
	identity *concurrency.Session
	ttl      time.Duration // what etcd granted
	ctx      context.Context
	end      context.CancelCauseFunc

	mu      sync.Mutex
	expires time.Time   // by this machine's clock
	lease   *time.Timer // gives the lease up for lost
	failed  error       // why the last renewal got no answer, nil if it did
	users   int         // attempts and holds
	retired bool        // to be revoked when there are none
}

// use returns the session that holds hang on, and opens one if there is none.
// Whoever uses it has to leave it.
func (s *Source) use(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if err := s.opening.Acquire(ctx, 1); err != nil {
		return nil, fmt.Errorf("etcdlock: ask for a lease: %w", err)
	}
	defer s.opening.Release(1)

	s.mu.Lock()
	current := s.session
	s.mu.Unlock()
	if current != nil && current.enter() {
		return current, nil
	}
	// A request that is cut off may leave behind a lease that nobody knows of; and
	// the next one will want it, if this caller does not wait.
	ctx, cancel = context.WithTimeout(s.ctx, answerTimeout)
	defer cancel()
	fresh, err := s.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("etcdlock: ask for a lease: %w", err)
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.session = fresh
	}
	s.mu.Unlock()
	if closed {
		fresh.revoke()
		return nil, errClosed
	}
	return fresh, nil
}

// open asks for a lease, and keeps it alive from then on.
func (s *Source) open(ctx context.Context) (*session, error) {
	sent := time.Now()
	granted, err := s.client.Grant(ctx, int64(math.Ceil(s.ttl.Seconds())))
	if err != nil {
		return nil, err // a lease that was granted all the same runs out
	}
	identity, err := concurrency.NewSession(s.client, concurrency.WithLease(granted.ID))
	if err != nil {
		return nil, err
	}
	identity.Orphan() // it need not renew
	n := &session{source: s, identity: identity, ttl: seconds(granted.TTL), users: 1}
	n.ctx, n.end = context.WithCancelCause(s.ctx)
	n.expires = sent.Add(n.sure())
	n.lease = time.AfterFunc(time.Until(n.expires), func() { n.over() })
	if !s.start(func() { n.keep(sent) }) {
		n.revoke()
		return nil, errClosed
	}
	return n, nil
}

// sure is for how long the lease is relied upon. The rest is for what it takes to
// tell the holder, and for a clock that is slower than etcd's.
func (n *session) sure() time.Duration { return n.ttl - n.ttl/10 }

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// keep renews the lease until the session ends. An error is not yet a loss: the
// lease has time left, and the next try may get through.
func (n *session) keep(sent time.Time) {
	defer n.lease.Stop()
	next := time.NewTimer(time.Until(sent.Add(n.ttl / 3)))
	defer next.Stop()
	for {
		select {
		case <-n.ctx.Done():
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
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(n.identity.Lease())}); err != nil {
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
	n.lease.Reset(time.Until(expires))
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
	n.users--
	last := n.retired && n.users == 0
	n.mu.Unlock()
	if last {
		n.revoke()
	}
}

// retire lets nobody new in.
func (n *session) retire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.retired = true
}

// revoke ends the session, and the lease as far as etcd can be reached.
func (n *session) revoke() {
	n.end(fmt.Errorf("%w: it was given up", ErrLost))
	ctx, cancel := context.WithTimeout(context.Background(), n.ttl)
	defer cancel()
	_, _ = n.source.client.Revoke(ctx, n.identity.Lease()) // it runs out anyway
}

// insist asks until there is an answer, or ctx has ended.
func (n *session) insist(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, n.ttl)
		err := ask(once)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(n.ttl/20, 100*time.Millisecond)):
		}
	}
}
