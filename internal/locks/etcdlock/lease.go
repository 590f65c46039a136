package etcdlock

import (
	"context"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/locks/lease"
)

// newSession gets a lease and keeps it alive from then on. The session already
// counts its first user.
func (s *Source) newSession() (*session, error) {
	ctx, cancel := context.WithTimeout(s.group.Ctx, answerTimeout)
	defer cancel()
	granted, sent, err := s.grant(ctx)
	if err != nil {
		return nil, err
	}
	n := &session{
		Session: lease.NewSession(s.group.Ctx, sent, seconds(granted.TTL), ErrLost),
		source:  s, lease: granted.ID, users: 1,
	}
	if !s.group.Go(n.keep) {
		n.End(errClosed)
		n.revoke()
		return nil, errClosed
	}
	return n, nil
}

// grant gets a lease. It asks again if the answer is so late that half of the lease
// is over, which the first answer after an outage can be.
func (s *Source) grant(ctx context.Context) (*clientv3.LeaseGrantResponse, time.Time, error) {
	for {
		sent := time.Now()
		granted, err := s.client.Grant(ctx, int64(math.Ceil(s.ttl.Seconds())))
		if err != nil || time.Since(sent) < seconds(granted.TTL)/2 {
			return granted, sent, err
		} // the unused lease expires by itself
	}
}
