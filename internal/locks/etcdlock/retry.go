package etcdlock

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// retry repeats ask until there is an answer, or ctx has ended. Each attempt has a time
// limit: perhaps only the server that was asked is unavailable.
func (n *session) retry(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, n.ttl)
		err := ask(once)
		transient := isTransient(err) || once.Err() != nil
		cancel()
		if err == nil || !transient || !n.pause(ctx) {
			return err
		}
	}
}

// pause waits a little before the next attempt. It reports false if ctx ended.
func (n *session) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(min(n.ttl/20, 100*time.Millisecond)):
		return true
	}
}

// isTransient tells an unavailable server, or one without a leader, from a refusal.
func isTransient(err error) bool {
	var refused rpctypes.EtcdError
	if errors.As(err, &refused) {
		return refused.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}
