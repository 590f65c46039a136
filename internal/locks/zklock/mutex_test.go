package zklock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"go.uber.org/goleak"

	"oversell/internal/backend/coordination/coordtest"
	"oversell/internal/locks/locktest"
	"oversell/internal/netfault"
)

// timeout is the shortest session timeout that the private server allows.
const timeout = time.Second

// calm is longer than any test with a healthy server takes.
const calm = 20 * time.Second

// slack is added to the time limit of a wait, because the machine may be busy.
const slack = 6 * time.Second

var errEnough = errors.New("waited long enough")

// The tests wait more than they compute, so more of them run in parallel.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "6") // the flag exists, so there is no error
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := coordtest.StopZooKeeper(); err != nil {
			fmt.Println(err)
			code = 1
		}
		os.Exit(code)
	}), goleak.IgnoreTopFunction("oversell/internal/proc.(*Process).run"),
		goleak.IgnoreAnyFunction("os/exec.(*Cmd).Wait")) // of the server, which is stopped after this check
}

// start gives the test as many sources as processes, which the lock treats as
// separate processes, and its own key.
func start(t *testing.T, processes int, timeout time.Duration) (key string, sources []*Source) {
	t.Helper()
	t.Parallel()
	server := coordtest.ZooKeeper(t)
	for range processes {
		sources = append(sources, newSource(t, server, timeout))
	}
	return "oversell:{" + t.Name() + "}:lock", sources
}

func newSource(t *testing.T, server string, timeout time.Duration) *Source {
	t.Helper()
	conn := coordtest.DialZooKeeper(t, server, timeout)
	s := NewSource(conn.Conn, conn.Timeout)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error("Close:", err)
		}
	})
	return s
}

// apart gives the test one process behind a network that may fail, and another.
func apart(t *testing.T, timeout time.Duration) (key string, link *netfault.Relay, here, there *Source) {
	t.Helper()
	t.Parallel()
	server := coordtest.ZooKeeper(t)
	link = coordtest.NewRelay(t, server)
	return "oversell:{" + t.Name() + "}:lock", link, newSource(t, link.Addr, timeout), newSource(t, server, timeout)
}

func TestNames(t *testing.T) {
	names := map[string]string{}
	for _, key := range []string{"", "%", "a", "a/b", "a%2Fb", ".", "..", "a\x00", "é", "oversell:{sku-1}:lock:zookeeper", "oversell_{sku-1}:lock"} {
		name := nameOf(key)
		if other, taken := names[name]; taken {
			t.Errorf("%q and %q are both %s", key, other, name)
		}
		names[name] = key
		if rest := strings.TrimPrefix(name, root+"/"); rest == "" || strings.ContainsAny(rest, "/.\x00") {
			t.Errorf("%q is %s", key, name)
		}
	}
	if got, want := nameOf("oversell:{a.b}:lock"), "/oversell/oversell:{a%2Eb}:lock"; got != want {
		t.Errorf("the name is %s; want %s", got, want)
	}
}

func TestKeysAreApart(t *testing.T) {
	key, sources := start(t, 1, calm)
	for _, end := range []string{"a", "a/b", "a/", "", "/", ".", ".."} {
		m := New(sources[0], key+end)
		if !tryLock(t, m) {
			t.Errorf("%q is not free", end)
			continue
		}
		defer unlock(t, m)
	}
}

func TestExclusive(t *testing.T) {
	key, sources := start(t, 2, calm)
	var witness locktest.Witness
	var wg sync.WaitGroup
	for p, s := range sources {
		for i := range 4 {
			wg.Go(func() {
				who := fmt.Sprint("process ", p, " holder ", i)
				m := New(s, key)
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

func TestFIFO(t *testing.T) {
	key, sources := start(t, 4, calm)
	mutexes := make([]*Mutex, len(sources))
	for i, s := range sources {
		mutexes[i] = New(s, key)
	}
	inOrder(t, mutexes, func(n int) {
		eventually(t, "nodes", func() bool { return len(nodes(t, sources[0], key)) == n+1 })
	})
}

// ZooKeeper reports who watches what: each waiter watches the node before its
// own.
func TestOnlyTheNextIsWoken(t *testing.T) {
	key, sources := start(t, 4, calm)
	first := New(sources[0], key)
	mustLock(t, first)
	var wg sync.WaitGroup
	for i, s := range sources[1:] {
		wg.Go(func() {
			m := New(s, key)
			if lock(t, m) {
				unlock(t, m)
			}
		})
		eventually(t, "the watch", func() bool { return len(watches(t, key)) == i+1 })
	}
	w := watches(t, key)
	for path, watchers := range w {
		if watchers != 1 || path == nameOf(key) {
			t.Errorf("%d watch %s; want 1", watchers, path)
		}
	}
	if len(w) != 3 {
		t.Errorf("%d nodes are watched; want 3", len(w))
	}
	unlock(t, first)
	wg.Wait()
}

// watches asks the server how many sessions watch each path of the key's queue.
func watches(t *testing.T, key string) map[string]int {
	t.Helper()
	c, err := net.Dial("tcp", coordtest.ZooKeeper(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "wchp"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	found, path := map[string]int{}, ""
	for line := range strings.Lines(string(answer)) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "/"):
			path = line
		case strings.HasPrefix(line, "0x") && strings.HasPrefix(path, nameOf(key)):
			found[path]++
		}
	}
	return found
}

func TestCancelLeavesNothing(t *testing.T) {
	key, sources := start(t, 2, calm)
	a, b := New(sources[0], key), New(sources[1], key)
	mustLock(t, a)
	for range 3 {
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() { failed <- b.Lock(ctx) }()
		eventually(t, "b's node", func() bool { return len(nodes(t, sources[0], key)) == 2 })
		cancel(errEnough)
		if err := <-failed; !errors.Is(err, errEnough) {
			t.Errorf("Lock = %v; want %v", err, errEnough)
		}
		eventually(t, "b's node gone", func() bool { return len(nodes(t, sources[0], key)) == 1 })
		mustNotBeHeld(t, b)
	}
	unlock(t, a)
	mustLock(t, b)
	unlock(t, b)
	if left := nodes(t, sources[0], key); len(left) > 0 {
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
	key, sources := start(t, 2, calm)
	for i := range 60 {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Duration(i)*100*time.Microsecond, errEnough)
		m := New(sources[0], key)
		switch err := m.Lock(ctx); {
		case err == nil:
			unlock(t, m)
		case !errors.Is(err, errEnough):
			t.Errorf("Lock = %v; want %v", err, errEnough)
		}
		cancel()
	}
	b := New(sources[1], key)
	inTime(t, slack, func() { mustLock(t, b) }) // long before the timeout
	unlock(t, b)
	eventually(t, "no nodes", func() bool { return len(nodes(t, sources[1], key)) == 0 })
}

// The connection breaks after ZooKeeper created the node, but before it
// replied.
func TestLostReply(t *testing.T) {
	key, relay, here, there := apart(t, 20*time.Second) // few pings whose replies could be lost instead
	a, b := New(here, key), New(there, key)
	mustLock(t, b) // creates the name, which is kept as long as it has a child
	if _, err := there.conn.Create(nameOf(key)+"/stays", nil, zk.FlagEphemeral, anyone); err != nil {
		t.Fatal(err)
	}
	unlock(t, b)
	mustLock(t, New(here, key+" other")) // begins the session

	relay.LoseReply()
	mustLock(t, a)
	if !relay.ReplyLost() {
		t.Fatal("no reply was lost")
	}
	if n := nodes(t, there, key); len(n) != 2 {
		t.Errorf("the nodes are %q; want one, and the one that stays", n)
	}
	if tryLock(t, b) {
		t.Error("the lock is free, want it held")
	}
	unlock(t, a)

	// The same, but the caller has given up before the connection is back.
	relay.LoseReply()
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- a.Lock(ctx) }()
	eventually(t, "a lost reply", relay.ReplyLost)
	cancel(errEnough)
	if err := <-failed; err == nil {
		unlock(t, a) // the cancellation came too late
	}
	eventually(t, "no nodes of a's", func() bool { return len(nodes(t, there, key)) == 1 })
}

func TestUnlockNotHeld(t *testing.T) {
	key, sources := start(t, 1, calm)
	m := New(sources[0], key)
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
	key, sources := start(t, 2, calm)
	a, b, c := New(sources[0], key), New(sources[0], key), New(sources[1], key)
	mustLock(t, a)
	if tryLock(t, b) || tryLock(t, c) {
		t.Error("the lock is free, want it held")
	}
	if n := nodes(t, sources[0], key); len(n) != 1 {
		t.Errorf("the nodes are %q; want the holder's", n)
	}
	unlock(t, a)
	if !tryLock(t, c) {
		t.Error("the lock is held, want it free")
	}
	unlock(t, c)
}

func TestDeadHolderExpires(t *testing.T) {
	key, relay, here, there := apart(t, timeout)
	a, b := New(here, key), New(there, key)
	mustLock(t, a)
	relay.Cut() // as the death of the process would
	died := time.Now()
	mustLock(t, b)
	waited := time.Since(died)
	t.Logf("the next one was let in %v after the death; the timeout is %v", waited.Round(time.Millisecond), timeout)
	if waited < timeout/2 || waited > 3*timeout+slack {
		t.Errorf("the next one was let in after %v; the timeout is %v", waited, timeout)
	}
	unlock(t, b)
	relay.Restore()
}

func TestLongWorkKeepsLock(t *testing.T) {
	key, sources := start(t, 2, timeout)
	a, b := New(sources[0], key), New(sources[1], key)
	mustLock(t, a)
	work := a.Context(t.Context())
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*timeout, errEnough)
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
	key, relay, here, there := apart(t, timeout)
	a, b, c := New(here, key), New(there, key), New(there, key)
	mustLock(t, a)
	relay.Cut()
	mustLock(t, b)
	relay.Restore()
	mustNotBeHeld(t, a)
	time.Sleep(timeout / 4) // time for what a's Unlock may still do
	if len(nodes(t, there, key)) != 1 || tryLock(t, c) {
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
			key, relay, here, there := apart(t, timeout)
			a, b := New(here, key), New(there, key)
			mustLock(t, a)
			told := make(chan time.Time, 1)
			ctx := a.Context(t.Context())
			context.AfterFunc(ctx, func() { told <- time.Now() })
			time.Sleep(timeout / 2) // long enough for a ping
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
			inTime(t, answerTimeout, func() { mustNotBeHeld(t, a) })
			relay.Restore()
			unlock(t, b)
			mustLock(t, a) // in a new session
			unlock(t, a)
		})
	}
}

func TestShortOutageDoesNoHarm(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			const timeout = 4 * time.Second
			key, relay, here, there := apart(t, timeout)
			a, b := New(here, key), New(there, key)
			mustLock(t, a)
			ctx := a.Context(t.Context())
			fail(relay)
			time.Sleep(timeout / 8)
			relay.Restore()
			time.Sleep(timeout)
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

// Somebody deletes a node by hand.
func TestForeignDeleteIsToldLate(t *testing.T) {
	key, sources := start(t, 2, timeout)
	a, b := New(sources[0], key), New(sources[1], key)
	mustLock(t, a)
	ctx := a.Context(t.Context())
	if err := sources[1].conn.Delete(nameOf(key)+"/"+nodes(t, sources[1], key)[0], -1); err != nil {
		t.Fatal(err)
	}
	mustLock(t, b) // even though a does not know yet
	select {
	case <-ctx.Done():
		if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("the cause is %v; want %v", err, ErrLost)
		}
	case <-time.After(timeout + slack):
		t.Error("a is not told that its node is gone")
	}
	mustNotBeHeld(t, a)
	unlock(t, b)
}

// ZooKeeper has ended the session, and the process does not know it yet. A caller that has
// no place in the queue has lost nothing: it gets the lock in the new session. The holders
// of the old session are told.
func TestEndedSessionIsReplaced(t *testing.T) {
	key, sources := start(t, 1, calm)
	s := sources[0]
	for name, acquire := range map[string]func(m *Mutex){
		"Lock":    func(m *Mutex) { mustLock(t, m) },
		"TryLock": func(m *Mutex) { mustTryLock(t, m) },
	} {
		holder := New(s, key+name+"held before")
		mustLock(t, holder)
		ctx := holder.Context(t.Context())
		s.session.id++ // as if the connection had got another one
		m := New(s, key+name)
		acquire(m)
		if m.hold.session == holder.hold.session {
			t.Errorf("%s acquired the lock in a session that has ended", name)
		}
		if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("%s: the cause of the end of a hold in the old session is %v; want %v", name, err, ErrLost)
		}
		mustNotBeHeld(t, holder)
		unlock(t, m)
	}
}

func mustTryLock(t *testing.T, m *Mutex) {
	t.Helper()
	if !tryLock(t, m) {
		t.Fatal("TryLock did not acquire a lock that is free")
	}
}

func TestTokenGrows(t *testing.T) {
	key, sources := start(t, 3, calm)
	var mu sync.Mutex // for the race detector, which cannot see synchronisation through ZooKeeper
	var last int64
	grows := func(m *Mutex) {
		mu.Lock()
		defer mu.Unlock()
		if token := m.Token(); token <= last {
			t.Errorf("token %d after %d", token, last)
		} else {
			last = token
		}
	}
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			m := New(sources[i%len(sources)], key)
			if lock(t, m) {
				grows(m)
				unlock(t, m)
			}
		})
	}
	wg.Wait()
}

func TestTokenOutlivesTheName(t *testing.T) {
	key, sources := start(t, 1, calm)
	m := New(sources[0], key)
	mustLock(t, m)
	before, name := m.Token(), m.hold.path
	unlock(t, m)
	eventually(t, "the name removed", func() bool {
		there, _, err := sources[0].conn.Exists(nameOf(key))
		return err == nil && !there
	})
	mustLock(t, m)
	if m.Token() <= before {
		t.Errorf("token %d after %d", m.Token(), before)
	}
	if number(m.hold.path) != number(name) {
		t.Errorf("the number goes on, from %s to %s: it might be the token", name, m.hold.path)
	}
	unlock(t, m)
}

// ZooKeeper goes down while somebody waits without a deadline.
func TestServerAway(t *testing.T) {
	t.Parallel()
	for name, fail := range failures {
		t.Run(name, func(t *testing.T) {
			key, relay, here, there := apart(t, timeout)
			waiter, holder := New(here, key), New(there, key)
			mustLock(t, holder)
			failed := make(chan error, 1)
			go func() { failed <- waiter.Lock(t.Context()) }()
			eventually(t, "the waiter's node", func() bool { return len(nodes(t, there, key)) == 2 })
			fail(relay)
			inTime(t, timeout+slack, func() {
				if err := <-failed; !errors.Is(err, ErrLost) {
					t.Errorf("Lock = %v; want %v", err, ErrLost)
				}
			})
			inTime(t, answerTimeout+slack, func() {
				if ok, err := New(here, key+"b").TryLock(t.Context()); ok || err == nil {
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

// ZooKeeper goes down while the lock is held, before it is released.
func TestUnlockWhileAway(t *testing.T) {
	key, relay, here, there := apart(t, timeout)
	a, b := New(here, key), New(there, key)
	mustLock(t, a)
	relay.Hole()
	inTime(t, answerTimeout+slack, func() {
		if err := a.Unlock(t.Context()); err == nil {
			t.Error("Unlock said that it had been heard")
		}
	})
	mustLock(t, b)
	relay.Restore()
	unlock(t, b)
}

func TestClose(t *testing.T) {
	key, sources := start(t, 2, calm)
	a, b := New(sources[0], key), New(sources[1], key)
	mustLock(t, a)
	ctx := a.Context(t.Context())
	if err := sources[0].Close(); err != nil {
		t.Error(err)
	}
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
		t.Errorf("the cause is %v; want %v", err, ErrLost)
	}
	sources[0].conn.Close()
	inTime(t, slack, func() { mustLock(t, b) }) // the session was ended
	unlock(t, b)
	mustNotBeHeld(t, a)
	if ok, err := New(sources[0], key).TryLock(t.Context()); ok || !errors.Is(err, errClosed) {
		t.Errorf("TryLock = %v, %v; want %v", ok, err, errClosed)
	}
}

// nodes returns the nodes in a lock's queue.
func nodes(t *testing.T, s *Source, key string) []string {
	t.Helper()
	names, _, err := s.conn.Children(nameOf(key))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

func TestFIFOInAProcess(t *testing.T) {
	key, sources := start(t, 1, calm)
	mutexes := make([]*Mutex, 5)
	for i := range mutexes {
		mutexes[i] = New(sources[0], key)
	}
	inOrder(t, mutexes, func(n int) {
		eventually(t, "in line", func() bool {
			s := sources[0]
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.local.Users(key) == n+1
		})
		time.Sleep(10 * time.Millisecond) // from joining the queue until it really waits
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

func TestUnlockAfterCancel(t *testing.T) {
	key, sources := start(t, 2, calm)
	a, b := New(sources[0], key), New(sources[1], key)
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

var failures = map[string]func(*netfault.Relay){
	"hole": (*netfault.Relay).Hole,
	"cut":  (*netfault.Relay).Cut,
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

// If a process may not delete its own node, Unlock returns an error instead of
// retrying forever.
func TestUnlockThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	here := newSource(t, coordtest.ZooKeeper(t), timeout)
	m := New(here, "oversell:{"+t.Name()+"}:lock")
	mustLock(t, m)
	if _, err := here.conn.SetACL(nameOf("oversell:{"+t.Name()+"}:lock"), zk.WorldACL(zk.PermRead|zk.PermAdmin), -1); err != nil {
		t.Fatal(err)
	}
	inTime(t, slack, func() {
		if err := m.Unlock(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("Unlock = %v; want %v", err, zk.ErrNoAuth)
		}
	})
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
