package coordination

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// ServeEtcd resolves the value of -etcd:
//
//   - "local" starts a private etcd on a free loopback port, with its files in a temporary folder.
//     It is the etcd in the PATH. If there is none, it is the etcd that go.mod names, which the go
//     command builds if the current folder is in this module;
//   - addresses of the user's own etcd, such as http://HOST:PORT, separated by commas, are checked
//     and kept.
//
// ctx limits the start of the server, which runs until Close. Errors wrap backend.ErrSpec,
// backend.ErrMissing, or the reason why the server did not start.
func ServeEtcd(ctx context.Context, spec string) (*Server, error) {
	if spec != "local" {
		endpoints, err := etcdEndpoints(spec)
		if err != nil {
			return nil, err
		}
		return &Server{Addresses: endpoints}, nil
	}
	path, err := findEtcd(ctx)
	if err != nil {
		return nil, err
	}
	return start(ctx, "http://", local.Command{
		Name: "etcd", Path: path, Args: etcdArgs, Ready: isHealthy, OnPort: true, Timeout: startTimeout,
		Without: "ETCD_", // variables for etcd would contradict the arguments
	})
}

// etcdTool is the package of etcd's server, a tool in go.mod.
const etcdTool = "go.etcd.io/etcd/server/v3"

var errNoEtcd = fmt.Errorf("etcd %w: install it (https://etcd.io/docs/latest/install), or run this in the source of "+
	"oversell, where the go command builds it", backend.ErrMissing)

// FindEtcd returns an error that wraps backend.ErrMissing if "local" cannot start an etcd. It does
// not build etcd.
func FindEtcd() error {
	if _, err := exec.LookPath("etcd"); err == nil {
		return nil
	}
	if _, err := exec.LookPath("go"); err != nil || !inSource() {
		return errNoEtcd
	}
	return nil
}

// inSource reports whether the current folder is in this module, by the rule of the go command.
func inSource() bool {
	dir, err := os.Getwd()
	for err == nil {
		text, missing := os.ReadFile(filepath.Join(dir, "go.mod"))
		if missing == nil {
			return strings.Contains("\n"+string(text), "\nmodule oversell\n")
		}
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above
	}
	return false
}

// findEtcd returns the path of an etcd. It builds etcd if necessary, which takes about a minute
// with an empty build cache.
func findEtcd(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("etcd"); err == nil {
		return path, nil
	}
	out, err := exec.CommandContext(ctx, "go", "tool", "-n", etcdTool).Output()
	if ctx.Err() != nil {
		return "", fmt.Errorf("build etcd: %w", context.Cause(ctx))
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoEtcd, err)
	}
	return string(bytes.TrimSpace(out)), nil
}

// etcdArgs returns the arguments of an etcd with one member. They trade durability for speed,
// because the data is deleted at the end. A single member does not have to wait for other members.
// With short ticks it starts immediately and allows leases of one second; the default minimum is
// two seconds.
func etcdArgs(dir string, port int) []string {
	client, peer := fmt.Sprintf("http://%s:%d", host, port), "http://"+host+":0"
	return []string{
		"--name", "default", "--data-dir", filepath.Join(dir, "data"), "--log-level", "error", "--unsafe-no-fsync",
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--heartbeat-interval", "10", "--election-timeout", "100",
	}
}

// isHealthy returns an error unless etcd reports that it has a leader and can write.
func isHealthy(c net.Conn) error {
	if _, err := io.WriteString(c, "GET /health HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	reply, err := io.ReadAll(c)
	if err == nil && !bytes.Contains(reply, []byte(`"health":"true"`)) {
		err = errors.New("not healthy")
	}
	return err
}

// DialEtcd connects to the endpoints that ServeEtcd returned, and checks that they answer and have
// a leader. If that takes longer than a few seconds, the error wraps backend.ErrUnreachable.
func DialEtcd(ctx context.Context, endpoints []string) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: dialTimeout,
		Logger:      zap.NewNop(),

		// Keepalives detect a connection that died silently, so that it is replaced. Until then,
		// its requests wait.
		DialKeepAliveTime:    dialTimeout,
		DialKeepAliveTimeout: dialTimeout,

		// By default, two attempts to reconnect can be minutes apart.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 50 * time.Millisecond, Multiplier: 2, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: dialTimeout,
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if _, err := client.Get(ctx, "oversell", clientv3.WithCountOnly()); err != nil {
		_ = client.Close() // the connection has never worked
		return nil, fmt.Errorf("etcd at %s: %w: %w", strings.Join(endpoints, ","), backend.ErrUnreachable, err)
	}
	return client, nil
}

// LeastLease returns the shortest lease that the etcd at the endpoints grants, which depends on
// etcd's configuration. Its errors are those of DialEtcd and of the request.
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
