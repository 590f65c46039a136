package coordination

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// ServeEtcd resolves the value of -etcd:
//
//   - "embedded" serves etcd from this process, on free loopback ports, with
//     its files in a temporary folder;
//   - addresses of the user's own etcd, as http://HOST:PORT, with commas
//     between them, are checked and kept.
//
// ctx bounds the start, not the life of the server; stop ends that, and leaves
// the user's own alone. It may be called more than once. Errors wrap ErrSpec, or
// what kept the server from starting.
func ServeEtcd(ctx context.Context, spec string) (endpoints []string, stop func() error, err error) {
	if spec == "embedded" {
		return serveEmbedded(ctx)
	}
	if endpoints, err = etcdEndpoints(spec); err != nil {
		return nil, nil, err
	}
	return endpoints, func() error { return nil }, nil
}

func serveEmbedded(ctx context.Context) ([]string, func() error, error) {
	if ctx.Err() != nil {
		return nil, nil, fmt.Errorf("start an embedded etcd: %w", context.Cause(ctx))
	}
	dir, err := os.MkdirTemp("", "oversell-etcd-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	e, err := embed.StartEtcd(embeddedConfig(dir))
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start an embedded etcd: %w", err), os.RemoveAll(dir))
	}
	stop := sync.OnceValue(func() error {
		e.Close()
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove the files of etcd: %w", err)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-e.Server.ReadyNotify():
		return []string{"http://" + e.Clients[0].Addr().String()}, stop, nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return nil, nil, errors.Join(fmt.Errorf("start an embedded etcd: %w", err), stop())
}

// embeddedConfig is an etcd of one member that says nothing. Durability gives
// way to speed, as what it holds is thrown away with it. A member that is alone
// need not be patient with others: by short ticks it starts at once, and allows
// leases of one second, where by default two are the least.
func embeddedConfig(dir string) *embed.Config {
	anyPort := []url.URL{{Scheme: "http", Host: host + ":0"}}
	c := embed.NewConfig()
	c.Dir = dir
	c.ListenClientUrls, c.AdvertiseClientUrls = anyPort, anyPort
	c.ListenPeerUrls, c.AdvertisePeerUrls = anyPort, anyPort
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs, c.ElectionMs = 10, 100
	c.UnsafeNoFsync = true
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	return c
}

// DialEtcd connects to the endpoints that ServeEtcd returned, and makes sure
// within a few seconds that they answer, with a leader among them. The error
// wraps ErrUnreachable.
func DialEtcd(ctx context.Context, endpoints []string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: dialTimeout,
		Logger:      zap.NewNop(),

		// A connection that died without a word is noticed by these, and
		// replaced; until then its requests wait.
		DialKeepAliveTime:    dialTimeout,
		DialKeepAliveTimeout: dialTimeout,

		// By default the tries to reconnect come to be minutes apart.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: dialTimeout,
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := client.Get(ctx, "oversell", clientv3.WithCountOnly()); err != nil {
		_ = client.Close() // it never worked
		return nil, fmt.Errorf("etcd at %s: %w: %w", strings.Join(endpoints, ","), ErrUnreachable, err)
	}
	return client, nil
}

// LeastLease returns the shortest lease that the etcd at the endpoints gives, which
// depends on how it is set up. The error is one of DialEtcd, or of the question.
func LeastLease(ctx context.Context, endpoints []string) (least time.Duration, err error) {
	client, err := DialEtcd(ctx, endpoints)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	granted, err := client.Grant(ctx, 1)
	if err != nil {
		return 0, fmt.Errorf("ask etcd at %s for a lease: %w", strings.Join(endpoints, ","), err)
	}
	if _, err := client.Revoke(ctx, granted.ID); err != nil {
		return 0, fmt.Errorf("give a lease back to etcd at %s: %w", strings.Join(endpoints, ","), err)
	}
	return time.Duration(granted.TTL) * time.Second, nil
}
