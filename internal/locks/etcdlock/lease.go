package etcdlock

import (
	"context"
	"math"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// newSession gets a lease and keeps it alive from then on. The session already
// counts its first user.
func (s *Source) newSession() (*session, error) {
	ctx, cancel := context.WithTimeout(s.ctx, answerTimeout)
	defer cancel()
	granted, sent, err := s.grant(ctx)
	if err != nil {
		return nil, err
	}
	n := &session{source: s, lease: granted.ID, ttl: seconds(granted.TTL), users: 1}
	n.ctx, n.end = context.WithCancelCause(s.ctx)
	n.expires = sent.Add(n.sure())
	n.alarm = time.AfterFunc(time.Until(n.expires), func() { n.over() })
	if !s.start(func() { n.keep(sent) }) {
		n.alarm.Stop()
		n.end(errClosed)
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
