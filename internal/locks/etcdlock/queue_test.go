package etcdlock

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/lease/leasetest"
	"oversell/internal/locks/locktest"
)

const (
	methodTxn   = "/etcdserverpb.KV/Txn"
	methodRange = "/etcdserverpb.KV/Range"
	methodWatch = "/etcdserverpb.Watch/Watch"
)

// tap intercepts the calls of a client.
type tap struct {
	before, after func(method string) // may be nil; for a watch, after is called when it has been created
	invoke        func(ctx context.Context, method string, send func(context.Context) error) error
}

// tapped returns a source whose client has the tap. The tap must not be changed after
// the client's first request, and its functions must be safe for concurrent use.
func tapped(t *testing.T, endpoint string, ttl time.Duration, p *tap) *lease.Source {
	t.Helper()
	call := func(f func(string), method string) {
		if f != nil {
			f(method)
		}
	}
	options := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(
			ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
			invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
		) error {
			call(p.before, method)
			defer call(p.after, method)
			send := func(ctx context.Context) error { return invoke(ctx, method, req, reply, conn, opts...) }
			if p.invoke != nil {
				return p.invoke(ctx, method, send)
			}
			return send(ctx)
		}),
		grpc.WithChainStreamInterceptor(func(
			ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn,
			method string, open grpc.Streamer, opts ...grpc.CallOption,
		) (grpc.ClientStream, error) {
			call(p.before, method)
			return open(ctx, desc, conn, method, opts...)
		}),
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, Logger: zap.NewNop(), DialOptions: options,
	})
	backendtest.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return leasetest.Closed(t, NewSource(client, ttl))
}

// once returns a function that calls f the first time it is called with this method.
func once(method string, f func()) func(string) {
	var one sync.Once
	return func(got string) {
		if got == method {
			one.Do(f)
		}
	}
}

// If the previous holder leaves just as a waiter prepares to wait, the waiter does not
// miss that event.
func TestDepartureIsNotMissed(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(p *tap, leave func()){
		"after the key was put":   func(p *tap, leave func()) { p.after = once(methodTxn, leave) },
		"before the watch stands": func(p *tap, leave func()) { p.before = once(methodWatch, leave) },
		"after the watch stands":  func(p *tap, leave func()) { p.before = once(methodRange, leave) },
		"after the last look":     func(p *tap, leave func()) { p.after = once(methodRange, leave) },
		"long after, when it sleeps": func(p *tap, leave func()) {
			p.after = once(methodRange, func() { time.AfterFunc(time.Second, leave) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := leasetest.Etcd(t)
			holder := lease.New(newSource(t, endpoint, leasetest.Calm), "a")
			leasetest.MustLock(t, holder)
			left := make(chan struct{})
			var p tap
			arrange(&p, func() {
				defer close(left)
				locktest.Unlock(t, holder)
			})
			waiter := lease.New(tapped(t, endpoint, leasetest.Calm, &p), "a")
			locktest.InTime(t, backendtest.Slack, func() { leasetest.MustLock(t, waiter) })
			<-left
			locktest.Unlock(t, waiter)
		})
	}
}

// A waiter gets the lock even if its watch breaks and the lock is released before the watch is
// restored. By then, etcd may have compacted the history of the key that it watched.
func TestBrokenWatch(t *testing.T) {
	t.Parallel()
	for name, fail := range leasetest.Failures() {
		for _, compact := range []bool{false, true} {
			if compact {
				name += ", compacted"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				endpoint := leasetest.Etcd(t)
				relay := leasetest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
				client := leasetest.DialEtcd(t, endpoint)
				here := newSource(t, "http://"+relay.Addr, leasetest.Calm)
				there := newSource(t, endpoint, leasetest.Calm)
				waiter, holder := lease.New(here, "a"), lease.New(there, "a")
				leasetest.MustLock(t, holder)
				done := make(chan bool)
				go func() { done <- leasetest.Wait(t, waiter) }()
				backendtest.Eventually(t, "the waiter's key", func() bool { return len(keys(t, client)) == 2 })
				time.Sleep(100 * time.Millisecond) // until the waiter sleeps
				fail(relay)
				locktest.Unlock(t, holder)
				if compact {
					r, err := client.Put(t.Context(), "b", "")
					backendtest.Must(t, err)
					if _, err := client.Compact(t.Context(), r.Header.Revision); err != nil {
						t.Fatal(err)
					}
				}
				relay.Restore()
				locktest.InTime(t, backendtest.Slack, func() {
					if <-done {
						locktest.Unlock(t, waiter)
					}
				})
			})
		}
	}
}

// If etcd executes a request but its reply is lost, the lock is still acquired or released only once.
func TestLostReply(t *testing.T) {
	t.Parallel()
	endpoint := leasetest.Etcd(t)
	relay := leasetest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
	client := leasetest.DialEtcd(t, endpoint)
	here, there := newSource(t, "http://"+relay.Addr, leasetest.Calm), newSource(t, endpoint, leasetest.Calm)
	a, b := lease.New(here, "a"), lease.New(there, "a")
	leasetest.MustLock(t, a)
	locktest.Unlock(t, a)
	for _, held := range []bool{false, true} {
		if held {
			leasetest.MustLock(t, b)
		}
		relay.LoseReply()
		done := make(chan bool)
		go func() { done <- leasetest.Wait(t, a) }()
		if held {
			backendtest.Eventually(t, "loss", relay.ReplyLost)
			backendtest.Eventually(t, "a's key", func() bool { return len(keys(t, client)) == 2 })
			locktest.Unlock(t, b)
		}
		if !<-done {
			return
		}
		if n := len(keys(t, client)); n != 1 || !relay.ReplyLost() {
			t.Errorf("%d keys, and the reply lost: %v; want 1 and true", n, relay.ReplyLost())
		}
		locktest.Unlock(t, a)
		leasetest.MustLock(t, a)
		relay.LoseReply()
		locktest.Unlock(t, a) // repeats the request, although etcd has already deleted the key
	}
	// The server also sends messages on its own, and one of those may be lost instead.
	for tries := 0; ; tries++ {
		relay.LoseReply()
		ok, err := a.TryLock(t.Context())
		if err != nil {
			break
		}
		if !ok || tries == 10 {
			t.Fatalf("TryLock = %v, %v; want an error", ok, err)
		}
		locktest.Unlock(t, a)
	}
	backendtest.Eventually(t, "no keys", func() bool { return len(keys(t, client)) == 0 })
	// Only the other source still has a lease.
	backendtest.Eventually(t, "the leases given up", func() bool { return len(leases(t, client)) == 1 })
}

// If the reply to a request for a lease arrives only after the lease has expired, Lock still succeeds.
func TestLateLease(t *testing.T) {
	t.Parallel()
	endpoint := leasetest.Etcd(t)
	relay := leasetest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
	m := lease.New(newSource(t, "http://"+relay.Addr, ttl), "a")
	relay.Hole()
	time.AfterFunc(ttl*3/2, relay.Restore)
	leasetest.MustLock(t, m)
	locktest.Unlock(t, m)
}

// If a waiter gives up before etcd has executed its request, the request creates no key: the
// lease has been revoked by then.
func TestLatePut(t *testing.T) {
	t.Parallel()
	endpoint := leasetest.Etcd(t)
	client := leasetest.DialEtcd(t, endpoint)
	asked, late, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var one sync.Once
	p := tap{invoke: func(ctx context.Context, method string, send func(context.Context) error) error {
		cutOff := false
		if method == methodTxn {
			one.Do(func() { cutOff = true })
		}
		if !cutOff {
			return send(ctx)
		}
		go func() {
			<-late
			done <- send(context.WithoutCancel(ctx))
		}()
		close(asked)
		<-ctx.Done()
		return ctx.Err()
	}}
	s := tapped(t, endpoint, leasetest.Calm, &p)
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- lease.New(s, "a").Lock(ctx) }()
	<-asked
	cancel(leasetest.ErrEnough)
	if err := <-failed; !errors.Is(err, leasetest.ErrEnough) {
		t.Errorf("Lock = %v; want %v", err, leasetest.ErrEnough)
	}
	backendtest.Eventually(t, "the lease given up", func() bool { return len(leases(t, client)) == 0 })
	close(late)
	if err := <-done; err == nil {
		t.Error("the late request was carried out")
	}
	if left := keys(t, client); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	m := lease.New(s, "a")
	locktest.InTime(t, backendtest.Slack, func() { leasetest.MustLock(t, m) })
	locktest.Unlock(t, m)
}

// A waiter whose key somebody deletes by hand notices it.
func TestForeignDeleteOfPlace(t *testing.T) {
	client, sources := start(t, 2, leasetest.Calm)
	holder, waiter := lease.New(sources[0], "a"), lease.New(sources[1], "a")
	for range 2 {
		leasetest.MustLock(t, holder)
		own := keys(t, client)[0]
		failed := make(chan error, 1)
		go func() { failed <- waiter.Lock(t.Context()) }()
		backendtest.Eventually(t, "the waiter's key", func() bool { return len(keys(t, client)) == 2 })
		for _, key := range keys(t, client) {
			if key != own {
				if _, err := client.Delete(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}
		locktest.Unlock(t, holder)
		if err := <-failed; !errors.Is(err, ErrLost) {
			t.Errorf("Lock = %v; want %v", err, ErrLost)
		}
		locktest.MustNotHold(t, waiter, lease.ErrNotHeld)
	}
}

// If somebody revokes a process's lease by hand, a new caller gets a new lease, long before the old
// one would have been renewed.
func TestRevokedLeaseIsReplaced(t *testing.T) {
	client, sources := start(t, 1, leasetest.Calm)
	m := lease.New(sources[0], "a")
	leasetest.MustLock(t, m)
	locktest.Unlock(t, m)
	for name, acquire := range map[string]func(){
		"Lock":    func() { leasetest.MustLock(t, m) },
		"TryLock": func() { locktest.MustTryLock(t, m) },
	} {
		before := leases(t, client)[0]
		if _, err := client.Revoke(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		acquire()
		if now := leases(t, client); len(now) != 1 || now[0] == before {
			t.Errorf("%s acquired the lock with the leases %v, after %v was revoked", name, now, before)
		}
		locktest.Unlock(t, m)
	}
}
