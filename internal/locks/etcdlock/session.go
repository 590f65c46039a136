package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"oversell/internal/locks/lease"
)

// A server is one process's client of etcd.
type server struct {
	client *clientv3.Client
	ttl    time.Duration
}

// A session is a lease that this process renews, and whose time it measures by this machine's clock.
//
// The client library's own session also keeps its lease alive. But it does not say when a renewal
// was sent, and if no renewal was answered for a whole ttl, it reports that up to a second late.
type session struct {
	*lease.Session
	client *clientv3.Client
	id     clientv3.LeaseID
	places atomic.Int64 // number of places created so far
}

// errUnknown means that the lease has expired in etcd, or was revoked.
var errUnknown = fmt.Errorf("%w: %w", ErrLost, lease.ErrReplaced)

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// open gets a lease and starts to renew it.
func (s *server) open(ctx context.Context, source *lease.Source) (*lease.Session, error) {
	granted, sent, err := s.grant(ctx)
	if err != nil {
		return nil, err
	}
	n := &session{Session: source.NewSession(sent, seconds(granted.TTL)), client: s.client, id: granted.ID}
	n.Place = n.place
	if !source.Go(n.keep) {
		n.End(lease.ErrClosed)
		n.revoke()
		return nil, lease.ErrClosed
	}
	return n.Session, nil
}

// grant gets a lease. If the answer is so late that half of the lease is over, which may happen
// after an outage, grant asks again.
func (s *server) grant(ctx context.Context) (*clientv3.LeaseGrantResponse, time.Time, error) {
	for {
		sent := time.Now()
		granted, err := s.client.Grant(ctx, int64(math.Ceil(s.ttl.Seconds())))
		if err != nil || time.Since(sent) < seconds(granted.TTL)/2 {
			return granted, sent, err
		} // the unused lease expires by itself
	}
}

// keep renews the lease until the session ends. A lease that this process gives up is revoked. A
// lost lease is left to expire, because its holders may have learned of the loss only just now.
func (n *session) keep() {
	n.Keep(n.renew)
	if n.GivenUp() {
		n.revoke()
	}
}

// renew sends one renewal. The client's own method retries by itself, and does not say when it sent
// the request that was answered.
func (n *session) renew() error {
	ctx, cancel := context.WithTimeout(clientv3.WithRequireLeader(n.Ctx), n.TTL/4)
	defer cancel()
	stream, err := pb.NewLeaseClient(n.client.ActiveConnection()).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(n.id)}); err != nil {
		return err
	}
	answer, err := stream.Recv()
	if err != nil {
		return err
	}
	if seconds(answer.GetTTL()) < n.TTL { // 0 if the lease has expired or was revoked
		return errUnknown
	}
	return nil
}

// revoke revokes the lease if etcd can be reached.
func (n *session) revoke() {
	ctx, cancel := context.WithTimeout(context.Background(), n.TTL)
	defer cancel()
	_, _ = n.client.Revoke(ctx, n.id) // if this fails, the lease expires
}

// retry calls ask until it gets an answer or ctx ends. Each attempt has a time limit, because the
// next attempt may reach a different server that is available.
func (n *session) retry(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, n.TTL)
		err := ask(once)
		transient := isTransient(err) || once.Err() != nil
		cancel()
		if err == nil || !transient || lease.Rest(ctx, n.TTL) != nil {
			return err
		}
	}
}

// isTransient reports whether err means that the server is unavailable or has no leader, rather
// than that it refused the request.
func isTransient(err error) bool {
	var refused rpctypes.EtcdError
	if errors.As(err, &refused) {
		return refused.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}
