package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/coordination"
	"oversell/internal/locks/etcdlock"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/lease/leasetest"
	"oversell/internal/locks/locktest"
	"oversell/internal/locks/zklock"
)

// ttl is the shortest ttl that both servers allow.
const ttl = time.Second

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, leasetest.StopZooKeeper)) }

// processes describes several processes that share the locks of one test.
type processes struct {
	named  func(process int, key string) *lease.Mutex // returns a new handle
	places func() int                                 // returns the length of the queue of mutex on the server
	leases func() int                                 // returns the number of leases on the server; nil: not checked
	end    func(process int) error                    // shuts a process down
}

// mutex returns a new handle on the lock under test, and other returns a handle on another lock.
func (p processes) mutex(process int) *lease.Mutex { return p.named(process, "a") }
func (p processes) other(process int) *lease.Mutex { return p.named(process, "b") }

// kind describes a kind of lock under test.
type kind struct {
	// serve starts processes. The network of the first process may fail.
	serve   func(t *testing.T, processes int, ttl time.Duration) (leasetest.Network, processes)
	lost    error
	virtual bool // the tests run in virtual time
}

var locks = map[string]kind{
	"memory":    {serve: inMemory, lost: errMemoryLost, virtual: true},
	"etcd":      {serve: inEtcd, lost: etcdlock.ErrLost},
	"zookeeper": {serve: inZooKeeper, lost: zklock.ErrLost},
}

// start starts n processes whose network does not fail.
func (l kind) start(t *testing.T, n int, ttl time.Duration) processes {
	_, ps := l.serve(t, n, ttl)
	return ps
}

func inEtcd(t *testing.T, n int, ttl time.Duration) (leasetest.Network, processes) {
	t.Parallel()
	endpoint := leasetest.Etcd(t)
	relay := leasetest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
	var sources []*lease.Source
	for at := "http://" + relay.Addr; len(sources) < n; at = endpoint {
		sources = append(sources, leasetest.Closed(t, etcdlock.NewSource(leasetest.DialEtcd(t, at), ttl)))
	}
	client := leasetest.DialEtcd(t, endpoint)
	return relay, processes{
		named: func(process int, key string) *lease.Mutex { return lease.New(sources[process], key) },
		end:   func(process int) error { return sources[process].Close() },
		places: func() int {
			r, err := client.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithCountOnly())
			backendtest.Must(t, err)
			return int(r.Count)
		},
		leases: func() int {
			r, err := client.Leases(t.Context())
			backendtest.Must(t, err)
			return len(r.Leases)
		},
	}
}

func inZooKeeper(t *testing.T, n int, ttl time.Duration) (leasetest.Network, processes) {
	t.Parallel()
	server := leasetest.ZooKeeper(t)
	relay := leasetest.NewRelay(t, server)
	var sources []*lease.Source
	var conns []*coordination.ZooKeeper // each has the session of a process
	for at := relay.Addr; len(sources) < n; at = server {
		conn := leasetest.DialZooKeeper(t, at, ttl)
		sources = append(sources, leasetest.Closed(t, zklock.NewSource(conn.Conn, conn.Timeout)))
		conns = append(conns, conn)
	}
	key, conn := uuid.NewString(), leasetest.DialZooKeeper(t, server, leasetest.Calm)
	return relay, processes{
		named: func(process int, name string) *lease.Mutex { return lease.New(sources[process], key+name) },
		end: func(process int) error {
			defer conns[process].Close()
			return sources[process].Close()
		},
		places: func() int {
			names, _, err := conn.Children("/oversell/" + key + "a")
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				t.Fatal(err)
			}
			return len(names)
		},
	}
}

// The locks in etcd and in ZooKeeper keep the same promises, and so does package lease on a fake server.
func TestPromises(t *testing.T) {
	for name, lock := range locks {
		t.Run(name, func(t *testing.T) { check(t, lock) })
	}
}

// check tests each promise in a subtest.
func check(t *testing.T, lock kind) {
	for name, scenario := range map[string]func(t *testing.T, lock kind){
		"one holder at a time":                            exclusive,
		"first come, first served among processes":        fifo,
		"a waiter that gives up leaves nothing behind":    givesUp,
		"a wait may end at any moment":                    endsAtAnyMoment,
		"Unlock reports that there is nothing to release": nothingHeld,
		"TryLock does not wait, and leaves no place":      tryHeld,
		"tokens grow, however the lock is acquired":       tokensGrow,
		"locks of similar names are apart":                namesApart,
		"a process that ends gives everything back":       processEnds,
	} {
		lock.try(t, name, func(t *testing.T) { scenario(t, lock) })
	}
	for name, scenario := range map[string]func(t *testing.T, lock kind, fail func(leasetest.Network)){
		"a short outage does no harm":              shortOutage,
		"a waiter is told when the server is away": serverAway,
	} {
		for failure, fail := range leasetest.Failures() {
			lock.try(t, name+"/"+failure, func(t *testing.T) { scenario(t, lock, fail) })
		}
	}
	lock.try(t, "Unlock is told when the server is away", func(t *testing.T) { unlockWhileAway(t, lock) })
}

// try runs a scenario as a subtest, in virtual time if the lock allows that.
func (l kind) try(t *testing.T, name string, scenario func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		if l.virtual {
			synctest.Test(t, scenario)
			return
		}
		scenario(t)
	})
}

func exclusive(t *testing.T, l kind) {
	ps := l.start(t, 2, leasetest.Calm)
	var witness locktest.Witness
	var wg sync.WaitGroup
	for p := range 2 {
		for i := range 4 {
			wg.Go(func() {
				who, m := fmt.Sprint("process ", p, " holder ", i), ps.mutex(p)
				for n := range 15 {
					if n%3 == 0 {
						for !locktest.TryLock(t, m) {
							if t.Failed() {
								return
							}
							time.Sleep(time.Millisecond)
						}
					} else if !leasetest.Wait(t, m) {
						return
					}
					leave := witness.Enter(who)
					time.Sleep(100 * time.Microsecond)
					leave()
					locktest.Unlock(t, m)
				}
			})
		}
	}
	wg.Wait()
	for _, overlap := range witness.Overlaps() {
		t.Error(overlap)
	}
}

func fifo(t *testing.T, l kind) {
	ps := l.start(t, 4, leasetest.Calm)
	inOrder(t, []*lease.Mutex{ps.mutex(0), ps.mutex(1), ps.mutex(2), ps.mutex(3)}, func(n int) {
		backendtest.Eventually(t, "a place in the queue", func() bool { return ps.places() == n+1 })
	})
}

// inOrder locks the first mutex and lets the others arrive one by one. It checks that they get the
// lock in that order. The function arrived returns once n of them wait.
func inOrder(t *testing.T, mutexes []*lease.Mutex, arrived func(n int)) {
	t.Helper()
	leasetest.MustLock(t, mutexes[0])
	served := make(chan int, len(mutexes))
	var wg sync.WaitGroup
	for n, m := range mutexes[1:] {
		wg.Go(func() {
			if leasetest.Wait(t, m) {
				served <- n
				locktest.Unlock(t, m)
			}
		})
		arrived(n + 1)
	}
	locktest.Unlock(t, mutexes[0])
	wg.Wait()
	close(served)
	want := 0
	for n := range served {
		if n != want {
			t.Errorf("waiter %d goes in as number %d", n, want)
		}
		want++
	}
	if want != len(mutexes)-1 {
		t.Errorf("%d went in; want %d", want, len(mutexes)-1)
	}
}

func givesUp(t *testing.T, l kind) {
	ps := l.start(t, 2, leasetest.Calm)
	a, b := ps.mutex(0), ps.mutex(1)
	leasetest.MustLock(t, a)
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- b.Lock(ctx) }()
		backendtest.Eventually(t, "b's place", func() bool { return ps.places() == 2 })
		cancel(leasetest.ErrEnough)
		if err := <-failed; !errors.Is(err, leasetest.ErrEnough) {
			t.Errorf("Lock = %v; want %v", err, leasetest.ErrEnough)
		}
		backendtest.Eventually(t, "b's place gone", func() bool { return ps.places() == 1 })
		locktest.MustNotHold(t, b, lease.ErrNotHeld)
	}
	locktest.Unlock(t, a)
	leasetest.MustLock(t, b)
	locktest.Unlock(t, b)
	if n := ps.places(); n > 0 {
		t.Errorf("%d places left behind", n)
	}
}

// A Lock that is cancelled at any moment leaves nothing behind that blocks the next caller.
func endsAtAnyMoment(t *testing.T, l kind) {
	ps := l.start(t, 2, leasetest.Calm)
	for i := range 60 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*100*time.Microsecond, leasetest.ErrEnough)
		m := ps.mutex(0)
		switch err := m.Lock(ctx); {
		case err == nil:
			locktest.Unlock(t, m)
		case !errors.Is(err, leasetest.ErrEnough):
			t.Errorf("Lock = %v; want %v", err, leasetest.ErrEnough)
		}
		cancel()
	}
	b := ps.mutex(1)
	locktest.InTime(t, backendtest.Slack, func() { leasetest.MustLock(t, b) }) // long before the ttl has run out
	locktest.Unlock(t, b)
	backendtest.Eventually(t, "no places", func() bool { return ps.places() == 0 })
	if ps.leases != nil {
		backendtest.Eventually(t, "one lease for each process at most", func() bool { return ps.leases() <= 2 })
	}
}

func nothingHeld(t *testing.T, l kind) {
	m := l.start(t, 1, leasetest.Calm).mutex(0)
	locktest.MustNotHold(t, m, lease.ErrNotHeld)
	if err := context.Cause(m.Context(t.Context())); !errors.Is(err, lease.ErrNotHeld) {
		t.Errorf("Context: %v; want %v", err, lease.ErrNotHeld)
	}
	leasetest.MustLock(t, m)
	ctx := m.Context(t.Context())
	if ctx.Err() != nil || m.Token() == 0 {
		t.Errorf("held, with %v and token %d", ctx.Err(), m.Token())
	}
	locktest.Unlock(t, m)
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after Unlock: %v; want %v", err, context.Canceled)
	}
	locktest.MustNotHold(t, m, lease.ErrNotHeld)
}

func tryHeld(t *testing.T, l kind) {
	ps := l.start(t, 2, leasetest.Calm)
	a, b, c := ps.mutex(0), ps.mutex(0), ps.mutex(1)
	leasetest.MustLock(t, a)
	if locktest.TryLock(t, b) || locktest.TryLock(t, c) {
		t.Error("the lock is free, want it held")
	}
	if n := ps.places(); n != 1 {
		t.Errorf("%d places; want the holder's", n)
	}
	locktest.Unlock(t, a)
	if !locktest.TryLock(t, c) {
		t.Error("the lock is held, want it free")
	}
	locktest.Unlock(t, c)
}

func tokensGrow(t *testing.T, l kind) {
	const processes = 3
	ps := l.start(t, processes, leasetest.Calm)
	var mu sync.Mutex // for the race detector, which does not know that the lock on the server synchronises
	var last int64
	grows := func(m *lease.Mutex) {
		mu.Lock()
		defer mu.Unlock()
		if token := m.Token(); token <= last {
			t.Errorf("token %d after %d", token, last)
		} else {
			last = token
		}
	}
	for i := range 12 {
		m := ps.mutex(i % processes)
		if i%2 == 0 {
			leasetest.MustLock(t, m)
		} else if !locktest.TryLock(t, m) {
			t.Fatal("the lock is held, want it free")
		}
		grows(m)
		locktest.Unlock(t, m)
	}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			m := ps.mutex(i % processes)
			if leasetest.Wait(t, m) {
				grows(m)
				locktest.Unlock(t, m)
			}
		})
	}
	wg.Wait()
}

func namesApart(t *testing.T, l kind) {
	ps := l.start(t, 1, leasetest.Calm)
	for _, name := range []string{"a/b", "a", "a%2Fb", "a/", "", "/", ".", "..", "a//"} {
		m := ps.named(0, name)
		if !locktest.TryLock(t, m) {
			t.Errorf("%q is not free", name)
			continue
		}
		defer locktest.Unlock(t, m)
	}
}

// A process ends while one of its goroutines has the lock and another waits for it.
func processEnds(t *testing.T, l kind) {
	ps := l.start(t, 2, leasetest.Calm)
	a, w, b := ps.mutex(0), ps.mutex(0), ps.mutex(1)
	leasetest.MustLock(t, a)
	ctx := a.Context(t.Context())
	waiting := make(chan error, 1)
	go func() { waiting <- w.Lock(t.Context()) }()
	if err := ps.end(0); err != nil {
		t.Error(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, l.lost) {
		t.Errorf("the cause is %v; want %v", err, l.lost)
	}
	locktest.InTime(t, backendtest.Slack, func() { leasetest.MustLock(t, b) }) // long before the ttl is over
	locktest.Unlock(t, b)
	locktest.MustNotHold(t, a, lease.ErrNotHeld)
	if err := <-waiting; err == nil {
		t.Error("Lock of a process that has ended succeeds")
	}
	if ok, err := ps.other(0).TryLock(t.Context()); ok || !errors.Is(err, lease.ErrClosed) {
		t.Errorf("TryLock = %v, %v; want %v", ok, err, lease.ErrClosed)
	}
}

// The context of a holder that has lost the lock ends before the next holder gets the lock.
func TestLossIsToldFirst(t *testing.T) {
	for name, lock := range locks {
		for failure, fail := range leasetest.Failures() {
			lock.try(t, name+"/"+failure, func(t *testing.T) { toldFirst(t, lock, fail) })
		}
	}
}

// toldFirst breaks the holder's connection but not the waiter's, and checks that the holder learns of
// its loss before the waiter gets the lock.
func toldFirst(t *testing.T, l kind, fail func(leasetest.Network)) {
	relay, ps := l.serve(t, 2, ttl)
	a, b := ps.mutex(0), ps.mutex(1)
	leasetest.MustLock(t, a)
	told := make(chan time.Time, 1)
	ctx := a.Context(t.Context())
	context.AfterFunc(ctx, func() { told <- time.Now() })
	time.Sleep(ttl / 2) // long enough for a renewal
	fail(relay)
	failed := time.Now()
	leasetest.MustLock(t, b)
	in := time.Now()
	select {
	case at := <-told:
		t.Logf("told %v after the failure, %v before the next one was in", at.Sub(failed).
			Round(time.Millisecond), in.Sub(at).Round(time.Millisecond))
	default:
		t.Error("the next one is in, and the holder does not know")
	}
	if err := context.Cause(ctx); !errors.Is(err, l.lost) {
		t.Errorf("the cause is %v; want %v", err, l.lost)
	}
	locktest.InTime(t, lease.AnswerTimeout, func() { locktest.MustNotHold(t, a, lease.ErrNotHeld) })
	relay.Restore()
	locktest.Unlock(t, b)
	leasetest.MustLock(t, a) // with a new lease
	locktest.Unlock(t, a)
}

func shortOutage(t *testing.T, l kind, fail func(leasetest.Network)) {
	ttl := 4 * ttl
	relay, ps := l.serve(t, 2, ttl)
	a, b := ps.mutex(0), ps.mutex(1)
	leasetest.MustLock(t, a)
	ctx := a.Context(t.Context())
	fail(relay)
	time.Sleep(ttl / 8)
	relay.Restore()
	time.Sleep(ttl)
	if ctx.Err() != nil {
		t.Errorf("lost: %v", context.Cause(ctx))
	}
	if locktest.TryLock(t, b) {
		t.Error("the lock is free, want it held")
	}
	locktest.Unlock(t, a)
}

// If the server does not answer, Lock and TryLock fail in time, even without a deadline.
func serverAway(t *testing.T, l kind, fail func(leasetest.Network)) {
	relay, ps := l.serve(t, 2, ttl)
	waiter, holder := ps.mutex(0), ps.mutex(1)
	leasetest.MustLock(t, holder)
	failed := make(chan error, 1)
	go func() { failed <- waiter.Lock(t.Context()) }()
	backendtest.Eventually(t, "the waiter's place", func() bool { return ps.places() == 2 })
	fail(relay)
	locktest.InTime(t, ttl+backendtest.Slack, func() {
		if err := <-failed; !errors.Is(err, l.lost) {
			t.Errorf("Lock = %v; want %v", err, l.lost)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), leasetest.Calm)
	defer cancel()
	go func() { failed <- ps.mutex(0).Lock(ctx) }()
	locktest.InTime(t, lease.AnswerTimeout+backendtest.Slack, func() {
		if ok, err := ps.other(0).TryLock(ctx); ok || err == nil {
			t.Errorf("TryLock = %v, %v; want an error", ok, err)
		}
		if err := <-failed; err == nil {
			t.Error("Lock succeeds while the server is away")
		}
	})
	relay.Restore()
	locktest.Unlock(t, holder)
	leasetest.MustLock(t, waiter)
	locktest.Unlock(t, waiter)
}

func unlockWhileAway(t *testing.T, l kind) {
	relay, ps := l.serve(t, 2, ttl)
	a, b := ps.mutex(0), ps.mutex(1)
	leasetest.MustLock(t, a)
	relay.Hole()
	locktest.InTime(t, lease.AnswerTimeout+backendtest.Slack, func() {
		if err := a.Unlock(t.Context()); err == nil {
			t.Error("Unlock said that it had been heard")
		}
	})
	leasetest.MustLock(t, b) // the lease has expired
	relay.Restore()
	locktest.Unlock(t, b)
}
