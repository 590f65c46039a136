package leasetest

import (
	"context"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/coordination"
	"oversell/internal/fault"
	"oversell/internal/locks/lease"
)

// Etcd starts a private etcd for the duration of the test and returns its address.
func Etcd(t testing.TB) string {
	t.Helper()
	backendtest.System(t)
	etcd, err := coordination.ServeEtcd(t.Context(), "local")
	if err != nil { // not skipped: the go command builds etcd
		t.Fatal(err)
	}
	backendtest.CloseAfter(t, etcd)
	return etcd.Addresses[0]
}

// DialEtcd connects to etcd for the duration of the test.
func DialEtcd(t testing.TB, endpoint string) *clientv3.Client {
	t.Helper()
	client, err := coordination.DialEtcd(t.Context(), []string{endpoint})
	backendtest.Must(t, err)
	t.Cleanup(func() { _ = client.Close() }) // a test may have closed it already
	return client
}

// zooKeeper is shared by the tests of a package, because the server takes a second to start.
var zooKeeper struct {
	sync.Mutex
	server *coordination.Server // nil if no server is running
}

// ZooKeeper returns the address of a private server, which StopZooKeeper stops. If
// ZooKeeper is not installed, the test is skipped. With CI=true, it fails instead.
func ZooKeeper(t testing.TB) string {
	t.Helper()
	backendtest.System(t)
	zooKeeper.Lock()
	defer zooKeeper.Unlock()
	if zooKeeper.server == nil {
		server, err := coordination.ServeZooKeeper(context.WithoutCancel(t.Context()), "local")
		backendtest.Must(t, err)
		zooKeeper.server = server
	}
	return zooKeeper.server.Addresses[0]
}

// StopZooKeeper stops the server that ZooKeeper started, if it started one. TestMain must call it after
// the tests.
func StopZooKeeper() error {
	zooKeeper.Lock()
	defer zooKeeper.Unlock()
	server := zooKeeper.server
	if zooKeeper.server = nil; server == nil { // a later call to ZooKeeper starts another one
		return nil
	}
	return server.Close()
}

// DialZooKeeper connects to ZooKeeper for the duration of the test.
func DialZooKeeper(t testing.TB, server string, timeout time.Duration) *coordination.ZooKeeper {
	t.Helper()
	conn, err := coordination.DialZooKeeper(t.Context(), []string{server}, timeout)
	backendtest.Must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// NewRelay starts a relay to target for the duration of the test. The relay can inject network faults.
func NewRelay(t testing.TB, target string) *fault.Relay {
	t.Helper()
	r, err := fault.StartRelay(target)
	backendtest.Must(t, err)
	backendtest.CloseAfter(t, r)
	return r
}

// Closed closes the source after the test.
func Closed(t testing.TB, s *lease.Source) *lease.Source {
	t.Helper()
	backendtest.CloseAfter(t, s)
	return s
}
