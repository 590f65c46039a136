package lockservers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/coordination"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/locks/redlock"
)

func TestMain(m *testing.M) {
	// A pool that could not connect looks once more a second later, even if it has been closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// Two processes can lock on the same servers, and exclude each other.
func TestServersAreShared(t *testing.T) {
	backendtest.System(t)
	s, at := serve(t, Specs{Redlock: "embedded", Etcd: "local"}, catalog.NeedsNodes, catalog.NeedsEtcd)
	a, b := dial(t, at), dial(t, at)
	for _, name := range []string{"redlock", "etcd"} {
		here, there := lock(t, name, a), lock(t, name, b)
		if ok, err := tryLock(t, here); !ok || err != nil {
			t.Fatal(name, ok, err)
		}
		if ok, err := tryLock(t, there); ok || err != nil {
			t.Errorf("%s: a second process got %v, %v", name, ok, err)
		}
		if err := here.Unlock(t.Context()); err != nil {
			t.Error(name, err)
		}
		if ok, err := tryLock(t, there); !ok || err != nil {
			t.Errorf("%s: the second process got %v, %v of a free lock", name, ok, err)
		}
		if err := there.Unlock(t.Context()); err != nil {
			t.Error(name, err)
		}
	}
	for range 2 { // closing twice does no harm
		if err := errors.Join(a.Close(), b.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	}
}

// tryLock tries again while the nodes of redlock, which have 50 ms, answer too late: a test must
// not fail because the machine is busy.
func tryLock(t *testing.T, l guard.Lock) (ok bool, err error) {
	t.Helper()
	for {
		if ok, err = l.TryLock(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) {
			return ok, err
		}
	}
}

// serve opens the servers for the needs.
func serve(t *testing.T, specs Specs, needs ...catalog.Need) (*Servers, Addresses) {
	t.Helper()
	s, err := New(t.Context(), specs, needs...)
	if err != nil {
		t.Fatal(err)
	}
	at, _, err := s.Open(t.Context(), needs...)
	if err != nil {
		t.Fatal(err)
	}
	return s, at
}

func dial(t *testing.T, a Addresses) *Clients {
	t.Helper()
	c, err := Running(a).Dial(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// lock returns a process's handle on the lock "one" of the strategy.
func lock(t *testing.T, strategy string, c *Clients) guard.Lock {
	t.Helper()
	s, err := catalog.Strategies().Find(strategy)
	if err != nil {
		t.Fatal(err)
	}
	return s.Distributed(c.Add(catalog.Options{TTL: time.Minute})).New("one")
}

func TestWrongSpecs(t *testing.T) {
	for _, tt := range []struct {
		specs Specs
		need  catalog.Need
		is    error
		says  string
	}{
		{Specs{Redlock: "127.0.0.1:1"}, catalog.NeedsNodes, backend.ErrSpec, "names 1 node, and must name 3 at least"},
		{Specs{Redlock: "a:1,redis://b:2,redis://a:1"}, catalog.NeedsNodes, backend.ErrSpec, "node 3 is named before"},
		{
			Specs{Redlock: "embedded,a:1,b:2"}, catalog.NeedsNodes, backend.ErrSpec,
			"of -redlock: node 1 is embedded, which must be the only value",
		},
		{Specs{Redlock: "a:1,b:2,c"}, catalog.NeedsNodes, backend.ErrSpec, "of -redlock: node 3 is no address"},
		{Specs{Redlock: ",,"}, catalog.NeedsNodes, backend.ErrSpec, "names 0 nodes"},
		{Specs{Redlock: "a:1,b:2,http://c:3"}, catalog.NeedsNodes, backend.ErrSpec, ""},
		{Specs{Redlock: "rediss://u:secret@a:1,b:2,redis://c:port"}, catalog.NeedsNodes, backend.ErrSpec, ""},
		{Specs{Etcd: "nowhere"}, catalog.NeedsEtcd, coordination.ErrSpec, "-etcd"},
		{Specs{ZooKeeper: "nowhere"}, catalog.NeedsZooKeeper, coordination.ErrSpec, "-zookeeper"},
	} {
		s, err := New(t.Context(), tt.specs, tt.need)
		if !errors.Is(err, tt.is) || s != nil || !strings.Contains(err.Error(), tt.says) ||
			strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "-redis") {
			t.Errorf("%+v: got %v, want %v", tt.specs, err, tt.is)
		}
	}
}

// A minority of nodes may be down when a process starts.
func TestNodesMayBeAway(t *testing.T) {
	s, all := serve(t, Specs{Redlock: "embedded"}, catalog.NeedsNodes)
	nodes := slices.Clone(all[catalog.NeedsNodes])
	nodes[0], nodes[4] = "redis://127.0.0.1:1", "redis://127.0.0.1:2"
	c := dial(t, Addresses{catalog.NeedsNodes: nodes})
	l := lock(t, "redlock", c)
	if ok, err := l.TryLock(t.Context()); !ok || err != nil {
		t.Errorf("with 3 of 5 nodes: %v, %v", ok, err)
	}
	if err := l.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := errors.Join(c.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
