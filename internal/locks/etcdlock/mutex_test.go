package etcdlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"oversell/internal/backend/coordination/coordtest"
	"oversell/internal/locks/locktest"
	"oversell/internal/netfault"
)

// ttl is the shortest lease of an embedded etcd.
const ttl = time.Second

// calm is longer than any test with a healthy server takes.
const calm = 20 * time.Second

// slack is added to the time limit of a wait, because the machine may be busy.
const slack = 6 * time.Second

var errEnough = errors.New("waited long enough")

// The tests wait more than they compute, so more of them run in parallel.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // the flag exists, so there is no error
	goleak.VerifyTestMain(m)
}

// start gives the test an etcd and as many sources as processes, which the lock
// treats as separate processes.
func start(t *testing.T, processes int, ttl time.Duration) (*clientv3.Client, []*Source) {
	t.Helper()
	t.Parallel()
	endpoint := coordtest.Etcd(t)
	var sources []*Source
	for range processes {
		sources = append(sources, newSource(t, endpoint, ttl))
	}
	return coordtest.DialEtcd(t, endpoint), sources
}

func newSource(t testing.TB, endpoint string, ttl time.Duration) *Source {
	t.Helper()
	s := NewSource(coordtest.DialEtcd(t, endpoint), ttl)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return s
}

func TestExclusive(t *testing.T) {
	_, sources := start(t, 2, calm)
	var witness locktest.Witness
	var wg sync.WaitGroup
	for p, s := range sources {
		for i := range 4 {
			wg.Go(func() {
				who := fmt.Sprint("process ", p, " holder ", i)
				m := New(s, "a")
				for n := range 15 {
					if n%3 == 0 {
						for !tryLock(t, m) {
							if t.Failed() {
								return
							}
							time.Sleep(time.Millisecond)
						}
					} else if !lock(t, m) {
						return
					}
					leave := witness.Enter(who)
					time.Sleep(100 * time.Microsecond)
					leave()
					unlock(t, m)
				}
			})
		}
	}
	wg.Wait()
	for _, overlap := range witness.Overlaps() {
		t.Error(overlap)
	}
}

func TestKeysAreApart(t *testing.T) {
	_, sources := start(t, 1, calm)
	names := []string{"a", "a/b", "a%2Fb", "a/", "", "/"}
	for range 2 {
		var held []*Mutex
		for _, key := range names {
			m := New(sources[0], key)
			if !tryLock(t, m) {
				t.Errorf("%q is not free", key)
				continue
			}
			held = append(held, m)
		}
		for _, m := range held {
			unlock(t, m)
		}
		slices.Reverse(names)
	}
}

func TestFIFOInAProcess(t *testing.T) {
	_, sources := start(t, 1, calm)
	mutexes := make([]*Mutex, 5)
	for i := range mutexes {
		mutexes[i] = New(sources[0], "a")
	}
	inOrder(t, mutexes, func(n int) {
		eventually(t, "in line", func() bool {
			s := sources[0]
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.local.Users("a") == n+1
		})
		time.Sleep(10 * time.Millisecond) // from joining the queue until it really waits
	})
}

func TestFIFO(t *testing.T) {
	client, sources := start(t, 4, calm)
	mutexes := make([]*Mutex, len(sources))
	for i, s := range sources {
		mutexes[i] = New(s, "a")
	}
	inOrder(t, mutexes, func(n int) {
		eventually(t, "keys", func() bool { return len(keys(t, client)) == n+1 })
	})
}

// inOrder lets the first mutex hold the lock while the others arrive one by
// one; arrived waits until n of them wait. They must be served in order of
// arrival.
func inOrder(t *testing.T, mutexes []*Mutex, arrived func(n int)) {
	t.Helper()
	if !lock(t, mutexes[0]) {
		t.FailNow()
	}
	served := make(chan int, len(mutexes))
	var wg sync.WaitGroup
	for n, m := range mutexes[1:] {
		wg.Go(func() {
			if lock(t, m) {
				served <- n
				unlock(t, m)
			}
		})
		arrived(n + 1)
	}
	unlock(t, mutexes[0])
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

func TestCancelLeavesNothing(t *testing.T) {
	client, sources := start(t, 2, calm)
	a, b := New(sources[0], "a"), New(sources[1], "a")
	mustLock(t, a)
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- b.Lock(ctx) }()
		eventually(t, "b's key", func() bool { return len(keys(t, client)) == 2 })
		cancel(errEnough)
		if err := <-failed; !errors.Is(err, errEnough) {
			t.Errorf("Lock = %v; want %v", err, errEnough)
		}
		eventually(t, "b's key gone", func() bool { return len(keys(t, client)) == 1 })
		mustNotBeHeld(t, b)
	}
	unlock(t, a)
	mustLock(t, b)
	unlock(t, b)
	if left := keys(t, client); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	eventually(t, "lines forgotten", func() bool {
		for _, s := range sources {
			s.mu.Lock()
			n := s.local.Keys()
			s.mu.Unlock()
			if n > 0 {
				return false
			}
		}
		return true
	})
}

// A cancelled attempt may be cut off at any point.
func TestCancelAtAnyMoment(t *testing.T) {
	client, sources := start(t, 2, calm)
	for i := range 60 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*50*time.Microsecond, errEnough)
		m := New(sources[0], "a")
		switch err := m.Lock(ctx); {
		case err == nil:
			unlock(t, m)
		case !errors.Is(err, errEnough):
			t.Errorf("Lock = %v; want %v", err, errEnough)
		}
		cancel()
	}
	b := New(sources[1], "a")
	inTime(t, slack, func() { mustLock(t, b) }) // long before the ttl has run out
	unlock(t, b)
	eventually(t, "no keys", func() bool { return len(keys(t, client)) == 0 })
	eventually(t, "one lease for each process at most", func() bool { return leases(t, client) <= 2 })
}

func TestUnlockAfterCancel(t *testing.T) {
	_, sources := start(t, 2, calm)
	a, b := New(sources[0], "a"), New(sources[1], "a")
	ctx, cancel := context.WithCancel(t.Context())
	if err := a.Lock(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := a.Unlock(ctx); err != nil {
		t.Error("Unlock:", err)
	}
	if !tryLock(t, b) {
		t.Error("the lock is held, want it free")
	}
	unlock(t, b)
}

func TestUnlockNotHeld(t *testing.T) {
	_, sources := start(t, 1, calm)
	m := New(sources[0], "a")
	mustNotBeHeld(t, m)
	if err := context.Cause(m.Context(t.Context())); !errors.Is(err, ErrNotHeld) {
		t.Errorf("Context: %v; want %v", err, ErrNotHeld)
	}
	mustLock(t, m)
	ctx := m.Context(t.Context())
	if ctx.Err() != nil || m.Token() == 0 {
		t.Errorf("held, with %v and token %d", ctx.Err(), m.Token())
	}
	unlock(t, m)
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("after Unlock: %v; want %v", err, context.Canceled)
	}
	mustNotBeHeld(t, m)
}

func TestTryLockHeld(t *testing.T) {
	client, sources := start(t, 2, calm)
	a, b, c := New(sources[0], "a"), New(sources[0], "a"), New(sources[1], "a")
	mustLock(t, a)
	if tryLock(t, b) || tryLock(t, c) {
		t.Error("the lock is free, want it held")
	}
	if n := len(keys(t, client)); n != 1 {
		t.Errorf("%d keys; want the holder's", n)
	}
	unlock(t, a)
	if !tryLock(t, c) {
		t.Error("the lock is held, want it free")
	}
	unlock(t, c)
}

// die ends the renewal of a source's lease, as if its process had died.
func die(s *Source) { s.session.End(errors.New("dead")) }

func TestDeadHolderExpires(t *testing.T) {
	_, sources := start(t, 2, ttl)
	a, b := New(sources[0], "a"), New(sources[1], "a")
	mustLock(t, a)
	die(sources[0])
	died := time.Now()
	mustLock(t, b)
	waited := time.Since(died)
	t.Logf("the next one was let in %v after the death; ttl is %v", waited.Round(time.Millisecond), ttl)
	if waited < ttl/2 || waited > 3*ttl+slack {
		t.Errorf("the next one was let in after %v; ttl is %v", waited, ttl)
	}
	unlock(t, b)
}

func TestLongWorkKeepsLock(t *testing.T) {
	_, sources := start(t, 2, ttl)
	a, b := New(sources[0], "a"), New(sources[1], "a")
	mustLock(t, a)
	work := a.Context(t.Context())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*ttl, errEnough)
	defer cancel()
	if err := b.Lock(ctx); !errors.Is(err, errEnough) {
		t.Errorf("Lock = %v; want %v", err, errEnough)
	}
	if work.Err() != nil {
		t.Errorf("the work was ended: %v", context.Cause(work))
	}
	unlock(t, a)
}

func TestLateUnlockSparesForeignLock(t *testing.T) {
	_, sources := start(t, 3, ttl)
	a, b, c := New(sources[0], "a"), New(sources[1], "a"), New(sources[2], "a")
	mustLock(t, a)
	die(sources[0])
	mustLock(t, b)
	mustNotBeHeld(t, a)
	if tryLock(t, c) {
		t.Error("the lock is free, want it b's")
	}
	unlock(t, b)
}

// The holder's network fails, silently or not; the waiter's does not. The holder
// must be told before the waiter gets the lock.
func TestLossIsToldFirst(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := coordtest.Etcd(t)
			relay := coordtest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
			here, there := newSource(t, "http://"+relay.Addr, ttl), newSource(t, endpoint, ttl)
			a, b := New(here, "a"), New(there, "a")

			mustLock(t, a)
			told := make(chan time.Time, 1)
			ctx := a.Context(t.Context())
			context.AfterFunc(ctx, func() { told <- time.Now() })
			time.Sleep(ttl / 2) // long enough for a renewal
			fail(relay)
			failed := time.Now()
			mustLock(t, b)
			in := time.Now()
			select {
			case at := <-told:
				t.Logf("told %v after the failure, %v before the next one was in", at.Sub(failed).Round(time.Millisecond), in.Sub(at).Round(time.Millisecond))
			default:
				t.Error("the next one is in, and the holder does not know")
			}
			if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
				t.Errorf("the cause is %v; want %v", err, ErrLost)
			}
			start := time.Now()
			mustNotBeHeld(t, a)
			if took := time.Since(start); took > answerTimeout {
				t.Errorf("Unlock took %v", took)
			}
			relay.Restore()
			unlock(t, b)
			mustLock(t, a) // with a new lease
			unlock(t, a)
		})
	}
}

var failures = map[string]func(*netfault.Relay){
	"hole": (*netfault.Relay).Hole,
	"cut":  (*netfault.Relay).Cut,
}

func TestShortOutageDoesNoHarm(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const ttl = 3 * time.Second
			endpoint := coordtest.Etcd(t)
			relay := coordtest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
			here, there := newSource(t, "http://"+relay.Addr, ttl), newSource(t, endpoint, ttl)
			a, b := New(here, "a"), New(there, "a")
			mustLock(t, a)
			ctx := a.Context(t.Context())
			fail(relay)
			time.Sleep(ttl / 4)
			relay.Restore()
			time.Sleep(ttl)
			if ctx.Err() != nil {
				t.Errorf("lost: %v", context.Cause(ctx))
			}
			if tryLock(t, b) {
				t.Error("the lock is free, want it held")
			}
			unlock(t, a)
		})
	}
}

// Somebody deletes the holder's key, or revokes its lease, by hand.
func TestForeignDeleteIsToldLate(t *testing.T) {
	client, sources := start(t, 2, ttl)
	a, b := New(sources[0], "a"), New(sources[1], "a")
	mustLock(t, a)
	ctx := a.Context(t.Context())
	if _, err := client.Delete(t.Context(), keys(t, client)[0]); err != nil {
		t.Fatal(err)
	}
	mustLock(t, b) // even though a does not know yet
	mustBeTold(t, ctx, "key")
	mustNotBeHeld(t, a)
	unlock(t, b)

	mustLock(t, a)
	ctx = a.Context(t.Context())
	if _, err := client.Revoke(t.Context(), sources[0].session.lease); err != nil {
		t.Fatal(err)
	}
	mustBeTold(t, ctx, "lease")
	mustNotBeHeld(t, a)
	mustLock(t, a)
	unlock(t, a)
}

func mustBeTold(t *testing.T, ctx context.Context, gone string) {
	t.Helper()
	select {
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("the cause is %v; want %v", err, ErrLost)
		}
	case <-time.After(ttl + slack):
		t.Errorf("the holder is not told that its %s is gone", gone)
	}
}

func TestTokenGrows(t *testing.T) {
	_, sources := start(t, 3, calm)
	var mu sync.Mutex // for the race detector, which cannot see synchronisation through etcd
	var last int64
	for i := range 12 {
		m := New(sources[i%len(sources)], "a")
		if i%2 == 0 {
			mustLock(t, m)
		} else if !tryLock(t, m) {
			t.Fatal("the lock is held, want it free")
		}
		if token := m.Token(); token <= last {
			t.Errorf("token %d after %d", token, last)
		} else {
			last = token
		}
		unlock(t, m)
	}
	var wg sync.WaitGroup
	for i := range 12 { // a waiter's token must be greater, too
		wg.Go(func() {
			m := New(sources[i%len(sources)], "a")
			if !lock(t, m) {
				return
			}
			mu.Lock()
			if token := m.Token(); token <= last {
				t.Errorf("token %d after %d", token, last)
			} else {
				last = token
			}
			mu.Unlock()
			unlock(t, m)
		})
	}
	wg.Wait()
}

func TestOneLeaseForAll(t *testing.T) {
	client, sources := start(t, 1, calm)
	holder := New(sources[0], "a")
	mustLock(t, holder)
	ctx, cancel := context.WithCancelCause(t.Context())
	var wg sync.WaitGroup
	for range 2000 {
		wg.Go(func() {
			if err := New(sources[0], "a").Lock(ctx); !errors.Is(err, errEnough) {
				t.Errorf("Lock = %v; want %v", err, errEnough)
			}
		})
	}
	eventually(t, "all in line", func() bool {
		sources[0].mu.Lock()
		defer sources[0].mu.Unlock()
		return sources[0].local.Users("a") == 2001
	})
	if k, l := len(keys(t, client)), leases(t, client); k != 1 || l != 1 {
		t.Errorf("%d keys and %d leases; want 1 and 1", k, l)
	}
	cancel(errEnough)
	wg.Wait()
	unlock(t, holder)
}

// etcd is down from the start, or goes down while a waiter waits. No caller has a
// deadline.
func TestServerAway(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := coordtest.Etcd(t)
			relay := coordtest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
			here, there := newSource(t, "http://"+relay.Addr, ttl), newSource(t, endpoint, ttl)
			waiter, holder := New(here, "a"), New(there, "a")
			mustLock(t, holder)
			failed := make(chan error, 1)
			go func() { failed <- waiter.Lock(t.Context()) }()
			eventually(t, "the waiter's key", func() bool { return len(keys(t, there.client)) == 2 })
			fail(relay)
			inTime(t, ttl+slack, func() {
				if err := <-failed; !errors.Is(err, ErrLost) {
					t.Errorf("Lock = %v; want %v", err, ErrLost)
				}
			})
			inTime(t, answerTimeout+slack, func() {
				if ok, err := New(here, "b").TryLock(t.Context()); ok || err == nil {
					t.Errorf("TryLock = %v, %v; want an error", ok, err)
				}
			})
			relay.Restore()
			unlock(t, holder)
			mustLock(t, waiter)
			unlock(t, waiter)
		})
	}
}

// etcd goes down while the lock is held, before it is released.
func TestUnlockWhileAway(t *testing.T) {
	t.Parallel()
	endpoint := coordtest.Etcd(t)
	relay := coordtest.NewRelay(t, strings.TrimPrefix(endpoint, "http://"))
	here, there := newSource(t, "http://"+relay.Addr, ttl), newSource(t, endpoint, ttl)
	a, b := New(here, "a"), New(there, "a")
	mustLock(t, a)
	relay.Hole()
	inTime(t, answerTimeout+slack, func() {
		if err := a.Unlock(t.Context()); err == nil {
			t.Error("Unlock said that it had been heard")
		}
	})
	mustLock(t, b) // the lease has expired
	relay.Restore()
	unlock(t, b)
}

func TestClose(t *testing.T) {
	client, sources := start(t, 2, calm)
	a, b := New(sources[0], "a"), New(sources[1], "a")
	mustLock(t, a)
	ctx := a.Context(t.Context())
	waiting := make(chan error, 1)
	w := New(sources[0], "a")
	waitCtx, cancel := context.WithCancelCause(t.Context())
	go func() { waiting <- w.Lock(waitCtx) }()
	if err := sources[0].Close(); err != nil {
		t.Error(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("the cause is %v; want %v", err, ErrLost)
	}
	inTime(t, slack, func() { mustLock(t, b) }) // the lease was revoked
	if n := len(keys(t, client)); n != 1 {
		t.Errorf("%d keys; want b's", n)
	}
	unlock(t, b)
	mustNotBeHeld(t, a)
	cancel(errEnough)
	if err := <-waiting; err == nil {
		t.Error("Lock of a closed source succeeds")
	}
	if ok, err := New(sources[0], "b").TryLock(t.Context()); ok || !errors.Is(err, errClosed) {
		t.Errorf("TryLock = %v, %v; want %v", ok, err, errClosed)
	}
}

func lock(t *testing.T, m *Mutex) bool {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errEnough)
	defer cancel()
	if err := m.Lock(ctx); err != nil {
		t.Error("Lock:", err)
		return false
	}
	return true
}

func mustLock(t *testing.T, m *Mutex) {
	t.Helper()
	if !lock(t, m) {
		t.FailNow()
	}
}

func tryLock(t *testing.T, m *Mutex) bool {
	t.Helper()
	ok, err := m.TryLock(t.Context())
	if err != nil {
		t.Error("TryLock:", err)
	}
	return ok
}

func unlock(t *testing.T, m *Mutex) {
	t.Helper()
	if err := m.Unlock(t.Context()); err != nil {
		t.Error("Unlock:", err)
	}
}

func mustNotBeHeld(t *testing.T, m *Mutex) {
	t.Helper()
	if err := m.Unlock(t.Context()); !errors.Is(err, ErrNotHeld) {
		t.Errorf("Unlock = %v; want %v", err, ErrNotHeld)
	}
}

// keys returns all keys in etcd.
func keys(t *testing.T, client *clientv3.Client) (names []string) {
	t.Helper()
	r, err := client.Get(t.Context(), "", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range r.Kvs {
		names = append(names, string(kv.Key))
	}
	return names
}

func leases(t *testing.T, client *clientv3.Client) int {
	t.Helper()
	r, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(r.Leases)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(slack); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: ", what)
		}
	}
}

// inTime fails the test if the call takes longer than limit.
func inTime(t *testing.T, limit time.Duration, call func()) {
	t.Helper()
	start := time.Now()
	call()
	if took := time.Since(start); took > limit {
		t.Errorf("it took %v", took)
	}
}
