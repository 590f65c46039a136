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

// Etcd is an etcd to dial: one that ServeEtcd started, or the user's own.
type Etcd struct {
	Endpoints []string // what DialEtcd takes, in any process on this machine

	member *member // nil if it is the user's own
	stop   func() error
}

// ServeEtcd resolves the value of -etcd:
//
//   - "embedded" serves etcd from this process, on free loopback ports, with
//     its files in a temporary folder;
//   - addresses of the user's own etcd, such as http://HOST:PORT, separated by
//     commas, are checked and kept.
//
// ctx bounds the start of the server, not its life, which Close ends. Errors
// wrap ErrSpec, or the reason why the server did not start.
func ServeEtcd(ctx context.Context, spec string) (*Etcd, error) {
	if spec == "embedded" {
		return serveEmbedded(ctx)
	}
	endpoints, err := etcdEndpoints(spec)
	if err != nil {
		return nil, err
	}
	return &Etcd{Endpoints: endpoints}, nil
}

func serveEmbedded(ctx context.Context) (*Etcd, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("start an embedded etcd: %w", context.Cause(ctx))
	}
	dir, err := os.MkdirTemp("", "oversell-etcd-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary folder: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	m, err := startMember(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("start an embedded etcd: %w", err)
	}
	return &Etcd{
		Endpoints: []string{"http://" + m.etcd.Clients[0].Addr().String()},
		member:    m,
		stop:      sync.OnceValue(m.stop),
	}, nil
}

// Err returns why an embedded etcd has failed, wrapping ErrFailed, or nil. An etcd
// that has failed does not recover, and refuses its clients. For a user's own etcd
// Err always returns nil.
func (e *Etcd) Err() error {
	if e.member == nil {
		return nil
	}
	return e.member.err()
}

// Close stops the etcd if ServeEtcd started it, and leaves the user's own alone. It
// may be called more than once.
func (e *Etcd) Close() error {
	if e.stop == nil {
		return nil
	}
	return e.stop()
}

// config configures an etcd of one member, without logging. It trades
// durability for speed, because its data is thrown away at the end. A single
// member does not have to wait for others: with short ticks it starts at once,
// and allows leases of one second, where the default minimum is two.
func (m *member) config() *embed.Config {
	anyPort := []url.URL{{Scheme: "http", Host: host + ":0"}}
	c := embed.NewConfig()
	c.Dir = m.dir
	c.ListenClientUrls, c.AdvertiseClientUrls = anyPort, anyPort
	c.ListenPeerUrls, c.AdvertisePeerUrls = anyPort, anyPort
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.TickMs, c.ElectionMs = 10, 100
	c.UnsafeNoFsync = true
	c.EnableGRPCGateway = false
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(m.logger())
	return c
}

// DialEtcd connects to the endpoints that ServeEtcd returned, and checks within
// a few seconds that they answer and have a leader. The error wraps
// ErrUnreachable.
func DialEtcd(ctx context.Context, endpoints []string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: dialTimeout,
		Logger:      zap.NewNop(),

		// Keepalives detect a connection that died silently, so that it is
		// replaced; until then its requests wait.
		DialKeepAliveTime:    dialTimeout,
		DialKeepAliveTimeout: dialTimeout,

		// By default, attempts to reconnect can be minutes apart.
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

// LeastLease returns the shortest lease that the etcd at the endpoints grants,
// which depends on its configuration. The error is DialEtcd's, or that of the
// request.
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
