package backend_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
)

// watched returns a client with a watch. The client is closed at the end of the test.
func watched(t *testing.T, url string) (redis.UniversalClient, *backend.RedisWatch) {
	t.Helper()
	w := new(backend.RedisWatch)
	rdb, err := w.Dial(t.Context(), url, 0)
	backendtest.Must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb, w
}

func history(t *testing.T, rdb redis.UniversalClient, key string) string {
	t.Helper()
	id, err := backend.RedisHistory(rdb)(t.Context(), key)
	backendtest.Must(t, err)
	return id
}

// manyConnections makes the client's pool open more connections.
func manyConnections(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := rdb.BLPop(t.Context(), 50*time.Millisecond, "nothing").Err(); err != redis.Nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestWatchNoticesARestart(t *testing.T) {
	server := backendtest.RestartableRedis(t)
	rdb, w := watched(t, server.URL)
	first, changes := history(t, rdb, "k"), w.Changes()
	if first == "" {
		t.Fatal("a real Redis has no history")
	}
	manyConnections(t, rdb)
	if n := w.Changes(); n != changes {
		t.Errorf("more connections to the same server count as %d changes", n-changes)
	}
	backendtest.Must(t, rdb.Save(t.Context()).Err())
	server.Kill()
	backendtest.Must(t, server.Restart(t.Context()))
	// The pool checks a connection before it uses it, so no command fails.
	backendtest.Must(t, rdb.Ping(t.Context()).Err())
	if w.Changes() == changes {
		t.Error("nobody noticed that the server was started again")
	}
	if now := history(t, rdb, "k"); now == first {
		t.Error("the server that was started again is in the same history")
	}
}

// A client follows the sentinels to the new master, and notices the change.
func TestSentinelFailover(t *testing.T) {
	set := backendtest.Sentinels(t)
	rdb, w := watched(t, set.URL())
	checkCounts(t, rdb)
	checkRedisName(t, rdb, set.URL(), `master "oversell" of the sentinels`)
	first, changes := history(t, rdb, "k"), w.Changes()
	manyConnections(t, rdb)
	if n := w.Changes(); n != changes {
		t.Errorf("more connections to the same master count as %d changes", n-changes)
	}
	backendtest.Must(t, set.Failover(t.Context()))
	within(t, 20*time.Second, func() error { return rdb.Set(t.Context(), "after", "v", 0).Err() })
	promoted, _, _ := set.Nodes()
	if v := backendtest.DialRedis(t, promoted.URL).Get(t.Context(), "after").Val(); v != "v" {
		t.Errorf("the replica has %q, want the write after the failover", v)
	}
	if w.Changes() == changes {
		t.Error("nobody noticed that another server is the master")
	}
	if now := history(t, rdb, "k"); now == first || now == "" {
		t.Errorf("the history after the failover is %q, and was %q", now, first)
	}
}

// A server that does not report its history can still be used.
func TestWatchOfASilentServer(t *testing.T) {
	rdb, w := watched(t, backendtest.Redis(t, "embedded"))
	if id := history(t, rdb, "k"); id != "" || w.Changes() != 0 {
		t.Errorf("history %q and %d changes, want none", id, w.Changes())
	}
	server := backendtest.RestartableRedis(t)
	admin := backendtest.DialRedis(t, server.URL)
	err := admin.Do(t.Context(), "ACL", "SETUSER", "shop", "on", ">secret", "~*", "+@all", "-info").Err()
	backendtest.Must(t, err)
	rdb, _ = watched(t, "redis://shop:secret@"+server.Addr)
	if id := history(t, rdb, "k"); id != "" {
		t.Errorf("history %q of a server that may not tell", id)
	}
}

// If a connection breaks while the client asks for the history, Dial fails.
func TestWatchOfAServerThatHangsUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	backendtest.Must(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := new(backend.RedisWatch).Dial(ctx, "redis://"+listener.Addr().String(), 0); err == nil {
		t.Error("dialled a server that hangs up")
	}
}
