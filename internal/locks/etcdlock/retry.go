package etcdlock

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"oversell/internal/locks/lease"
)

// retry repeats ask until there is an answer, or ctx has ended. Each attempt has a time
// limit: perhaps only the server that was asked is unavailable.
func (n *session) retry(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, n.TTL)
		err := ask(once)
		transient := isTransient(err) || once.Err() != nil
		cancel()
		if err == nil || !transient || lease.Sleep(ctx, lease.Rest(n.TTL)) != nil {
			return err
		}
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
