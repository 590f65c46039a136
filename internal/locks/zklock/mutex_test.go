package zklock

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"oversell/internal/backend/backendtest"
	"oversell/internal/fault"
	"oversell/internal/locks/lease"
	"oversell/internal/locks/lease/leasetest"
	"oversell/internal/locks/locktest"
)

// timeout is the shortest session timeout that the private server allows.
const timeout = time.Second

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, leasetest.StopZooKeeper)) }

// start returns a key for the test, and the given number of sources. The lock treats each source as a
// separate process.
func start(t *testing.T, processes int, timeout time.Duration) (key string, sources []*lease.Source) {
	t.Helper()
	t.Parallel()
	server := leasetest.ZooKeeper(t)
	for range processes {
		s, _ := newSource(t, server, timeout)
		sources = append(sources, s)
	}
	return "oversell:{" + t.Name() + "}:lock", sources
}

func newSource(t *testing.T, server string, timeout time.Duration) (*lease.Source, *zk.Conn) {
	t.Helper()
	conn := leasetest.DialZooKeeper(t, server, timeout)
	return leasetest.Closed(t, NewSource(conn.Conn, conn.Timeout)), conn.Conn
}

// apart returns two sources: here connects through link, which can fail, and there connects directly.
func apart(t *testing.T, timeout time.Duration) (key string, link *fault.Relay, here, there *lease.Source) {
	t.Helper()
	t.Parallel()
	server := leasetest.ZooKeeper(t)
	link = leasetest.NewRelay(t, server)
	here, _ = newSource(t, link.Addr, timeout)
	there, _ = newSource(t, server, timeout)
	return "oversell:{" + t.Name() + "}:lock", link, here, there
}

// dial returns a connection that no fault affects.
func dial(t *testing.T) *zk.Conn {
	t.Helper()
	return leasetest.DialZooKeeper(t, leasetest.ZooKeeper(t), leasetest.Calm).Conn
}

func TestNames(t *testing.T) {
	names := map[string]string{}
	for _, key := range []string{"", "%", "a", "a/b", "a%2Fb", ".", "..", "a\x00", "é",
		"oversell:{sku-1}:lock:zookeeper", "oversell_{sku-1}:lock"} {
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

// Each waiter watches only the node before its own, as ZooKeeper's list of watches shows.
func TestOnlyTheNextIsWoken(t *testing.T) {
	key, sources := start(t, 4, leasetest.Calm)
	first := lease.New(sources[0], key)
	leasetest.MustLock(t, first)
	var wg sync.WaitGroup
	for i, s := range sources[1:] {
		wg.Go(func() {
			m := lease.New(s, key)
			if leasetest.Wait(t, m) {
				locktest.Unlock(t, m)
			}
		})
		backendtest.Eventually(t, "the watch", func() bool { return len(watches(t, key)) == i+1 })
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
	locktest.Unlock(t, first)
	wg.Wait()
}

// watches returns the number of sessions that watch each path of the key's queue.
func watches(t *testing.T, key string) map[string]int {
	t.Helper()
	c, err := net.Dial("tcp", leasetest.ZooKeeper(t))
	backendtest.Must(t, err)
	defer c.Close()
	if _, err := io.WriteString(c, "wchp"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	backendtest.Must(t, err)
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

// If the connection breaks after ZooKeeper has created a node, but before its reply arrives, the caller
// still uses that node, and leaves no second one behind.
func TestLostReply(t *testing.T) {
	key, relay, here, there := apart(t, 20*time.Second) // few pings, whose replies could be lost instead
	conn, a, b := dial(t), lease.New(here, key), lease.New(there, key)
	leasetest.MustLock(t, b) // creates the lock's parent node, which is kept as long as it has a child
	if _, err := conn.Create(nameOf(key)+"/stays", nil, zk.FlagEphemeral, anyone); err != nil {
		t.Fatal(err)
	}
	locktest.Unlock(t, b)
	leasetest.MustLock(t, lease.New(here, key+" other")) // begins the session

	relay.LoseReply()
	leasetest.MustLock(t, a)
	if !relay.ReplyLost() {
		t.Fatal("no reply was lost")
	}
	if n := nodes(t, conn, key); len(n) != 2 {
		t.Errorf("the nodes are %q; want one, and the one that stays", n)
	}
	if locktest.TryLock(t, b) {
		t.Error("the lock is free, want it held")
	}
	locktest.Unlock(t, a)

	// If the caller gives up before the connection is restored, its node is removed.
	relay.LoseReply()
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() { failed <- a.Lock(ctx) }()
	backendtest.Eventually(t, "a lost reply", relay.ReplyLost)
	cancel(leasetest.ErrEnough)
	if err := <-failed; err == nil {
		locktest.Unlock(t, a) // the cancellation came too late
	}
	backendtest.Eventually(t, "no nodes of a's", func() bool { return len(nodes(t, conn, key)) == 1 })
}

// If ZooKeeper has ended a process's session, a new caller opens a new session and gets the lock, even
// if the process did not know of the end yet. The contexts of holders in the old session report the loss.
func TestEndedSessionIsReplaced(t *testing.T) {
	t.Parallel()
	key, conn := "oversell:{"+t.Name()+"}:lock", leasetest.DialZooKeeper(t, leasetest.ZooKeeper(t), leasetest.Calm)
	kind := (&server{conn: conn.Conn, timeout: conn.Timeout}).kind()
	open, opened := kind.Open, 0
	var last *session
	kind.Open = func(ctx context.Context, s *lease.Source) (*lease.Session, error) {
		n, err := open(ctx, s)
		if err == nil {
			opened, last = opened+1, n.Place(key).(*node).session
		}
		return n, err
	}
	s := leasetest.Closed(t, lease.NewSource(kind))
	for name, acquire := range map[string]func(m *lease.Mutex){
		"Lock":    func(m *lease.Mutex) { leasetest.MustLock(t, m) },
		"TryLock": func(m *lease.Mutex) { locktest.MustTryLock(t, m) },
	} {
		holder := lease.New(s, key+name+"held before")
		leasetest.MustLock(t, holder)
		ctx, before := holder.Context(t.Context()), opened
		last.id++ // as if the connection belonged to a new session
		m := lease.New(s, key+name)
		acquire(m)
		if opened != before+1 {
			t.Errorf("%s opened %d sessions, want one", name, opened-before)
		}
		if err := context.Cause(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("%s: the cause of the end of a hold in the old session is %v; want %v", name, err, ErrLost)
		}
		locktest.MustNotHold(t, holder, lease.ErrNotHeld)
		locktest.Unlock(t, m)
	}
}

func TestTokenOutlivesTheName(t *testing.T) {
	key, sources := start(t, 1, leasetest.Calm)
	conn, m := dial(t), lease.New(sources[0], key)
	leasetest.MustLock(t, m)
	before := m.Token()
	locktest.Unlock(t, m)
	backendtest.Eventually(t, "the name removed", func() bool {
		there, _, err := conn.Exists(nameOf(key))
		return err == nil && !there
	})
	leasetest.MustLock(t, m)
	if m.Token() <= before {
		t.Errorf("token %d after %d", m.Token(), before)
	}
	if name := nodes(t, conn, key)[0]; number(name) != "0000000000" {
		t.Errorf("the number goes on in %s: it might be the token", name)
	}
	locktest.Unlock(t, m)
}

// nodes returns the nodes in a lock's queue.
func nodes(t *testing.T, conn *zk.Conn, key string) []string {
	t.Helper()
	names, _, err := conn.Children(nameOf(key))
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	return names
}

// If a process has no permission to delete its own node, Unlock returns an error and does not
// retry forever.
func TestUnlockThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	here, conn := newSource(t, leasetest.ZooKeeper(t), timeout)
	key := "oversell:{" + t.Name() + "}:lock"
	m := lease.New(here, key)
	leasetest.MustLock(t, m)
	if _, err := conn.SetACL(nameOf("oversell:{"+t.Name()+"}:lock"), zk.WorldACL(zk.PermRead|zk.PermAdmin),
		-1); err != nil {
		t.Fatal(err)
	}
	locktest.InTime(t, backendtest.Slack, func() {
		if err := m.Unlock(t.Context()); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("Unlock = %v; want %v", err, zk.ErrNoAuth)
		}
	})
}
