package etcdlock

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/lease/leasetest"
	"oversell/internal/locks/locktest"
)

// ttl is the shortest ttl that a private etcd allows for a lease.
const ttl = time.Second

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// start returns a client of an etcd, and the given number of sources. The lock treats each
// source as a separate process.
func start(t *testing.T, processes int, ttl time.Duration) (*clientv3.Client, []*lease.Source) {
	t.Helper()
	t.Parallel()
	endpoint := leasetest.Etcd(t)
	var sources []*lease.Source
	for range processes {
		sources = append(sources, newSource(t, endpoint, ttl))
	}
	return leasetest.DialEtcd(t, endpoint), sources
}

func newSource(t testing.TB, endpoint string, ttl time.Duration) *lease.Source {
	t.Helper()
	return leasetest.Closed(t, NewSource(leasetest.DialEtcd(t, endpoint), ttl))
}

// A holder whose key is deleted or whose lease is revoked by hand notices only later.
func TestForeignDeleteIsToldLate(t *testing.T) {
	client, sources := start(t, 2, ttl)
	a, b := lease.New(sources[0], "a"), lease.New(sources[1], "a")
	leasetest.MustLock(t, a)
	ctx, id := a.Context(t.Context()), leases(t, client)[0]
	if _, err := client.Delete(t.Context(), keys(t, client)[0]); err != nil {
		t.Fatal(err)
	}
	leasetest.MustLock(t, b) // even though a does not know yet
	mustBeTold(t, ctx, "key")
	locktest.MustNotHold(t, a, lease.ErrNotHeld)
	locktest.Unlock(t, b)

	leasetest.MustLock(t, a)
	ctx = a.Context(t.Context())
	if _, err := client.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	mustBeTold(t, ctx, "lease")
	locktest.MustNotHold(t, a, lease.ErrNotHeld)
	leasetest.MustLock(t, a)
	locktest.Unlock(t, a)
}

func mustBeTold(t *testing.T, ctx context.Context, gone string) {
	t.Helper()
	select {
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("the cause is %v; want %v", err, ErrLost)
		}
	case <-time.After(ttl + backendtest.Slack):
		t.Errorf("the holder is not told that its %s is gone", gone)
	}
}

func TestOneLeaseForAll(t *testing.T) {
	client, sources := start(t, 1, leasetest.Calm)
	holder := lease.New(sources[0], "a")
	leasetest.MustLock(t, holder)
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	var begun atomic.Int64
	for range 2000 {
		wg.Go(func() {
			begun.Add(1)
			if err := lease.New(sources[0], "a").Lock(ctx); !errors.Is(err, leasetest.ErrEnough) {
				t.Errorf("Lock = %v; want %v", err, leasetest.ErrEnough)
			}
		})
	}
	backendtest.Eventually(t, "all have begun", func() bool { return begun.Load() == 2000 })
	if k, l := len(keys(t, client)), len(leases(t, client)); k != 1 || l != 1 {
		t.Errorf("%d keys and %d leases; want 1 and 1", k, l)
	}
	cancel(leasetest.ErrEnough)
	wg.Wait()
	locktest.Unlock(t, holder)
}

// keys returns all keys in etcd.
func keys(t *testing.T, client *clientv3.Client) (names []string) {
	t.Helper()
	r, err := client.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	backendtest.Must(t, err)
	for _, kv := range r.Kvs {
		names = append(names, string(kv.Key))
	}
	return names
}

func leases(t *testing.T, client *clientv3.Client) (ids []clientv3.LeaseID) {
	t.Helper()
	r, err := client.Leases(t.Context())
	backendtest.Must(t, err)
	for _, l := range r.Leases {
		ids = append(ids, l.ID)
	}
	return ids
}
