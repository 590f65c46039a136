package etcdlock

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// insist asks until there is an answer, or ctx has ended. Each try is limited, for
// of several servers it may be just the one that was asked that is away.
func (n *session) insist(ctx context.Context, ask func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, n.ttl)
		err := ask(once)
		mayPass := isPassing(err) || once.Err() != nil
		cancel()
		if err == nil || !mayPass || !n.pause(ctx) {
			return err
		}
	}
}

// pause keeps a failure from being met again at once. It reports whether ctx goes on.
func (n *session) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(min(n.ttl/20, 100*time.Millisecond)):
		return true
	}
}

// isPassing tells a server that is away, or without a leader, from a refusal.
func isPassing(err error) bool {
	var refused rpctypes.EtcdError
	if errors.As(err, &refused) {
		return refused.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}
