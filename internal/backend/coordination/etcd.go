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

// Etcd is an etcd to dial: one that ServeEtcd started, or the user's.
type Etcd struct {
	Endpoints []string // what DialEtcd takes, in any process of this machine

	member *member // nil: it is the user's
	stop   func() error
}

// ServeEtcd resolves the value of -etcd:
//
//   - "embedded" serves etcd from this process, on free loopback ports, with
//     its files in a temporary folder;
//   - addresses of the user's own etcd, as http://HOST:PORT, with commas
//     between them, are checked and kept.
//
// ctx bounds the start, not the life of the server; Close ends that. Errors wrap
// ErrSpec, or what kept the server from starting.
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
// that has failed stays so, and refuses its clients. How a user's etcd is, nobody
// knows here.
func (e *Etcd) Err() error {
	if e.member == nil {
		return nil
	}
	return e.member.err()
}

// Close stops the etcd if ServeEtcd started it, and leaves the user's alone. It may
// be called more than once.
func (e *Etcd) Close() error {
	if e.stop == nil {
		return nil
	}
	return e.stop()
}

// config is of an etcd of one member that says nothing. Durability gives
// way to speed, as what it holds is thrown away with it. A member that is alone
// need not be patient with others: by short ticks it starts at once, and allows
// leases of one second, where by default two are the least.
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
