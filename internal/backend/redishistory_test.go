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

// changeOf returns a function that checks that w has noticed a change since the call to changeOf, and that
// the history of the data has changed.
func changeOf(t *testing.T, rdb redis.UniversalClient, w *backend.RedisWatch) (noticed func()) {
	t.Helper()
	first, changes := history(t, rdb, "k"), w.Changes()
	return func() {
		t.Helper()
		seen := w.Changes() - changes // before the question for the history, which may dial
		if now := history(t, rdb, "k"); seen == 0 || now == first || now == "" || first == "" {
			t.Errorf("%d changes were noticed; the history is %q, and was %q", seen, now, first)
		}
	}
}

// manyConnections makes the client's pool open more connections, which w does not count as changes.
func manyConnections(t *testing.T, rdb redis.UniversalClient, w *backend.RedisWatch) {
	t.Helper()
	changes := w.Changes()
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if err := rdb.BLPop(t.Context(), 50*time.Millisecond, "nothing").Err(); err != redis.Nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := w.Changes(); n != changes {
		t.Errorf("more connections to the same servers count as %d changes", n-changes)
	}
}

func TestWatchNoticesARestart(t *testing.T) {
	server := backendtest.RestartableRedis(t)
	rdb, w := watched(t, server.URL)
	noticed := changeOf(t, rdb, w)
	manyConnections(t, rdb, w)
	backendtest.Must(t, rdb.Save(t.Context()).Err())
	server.Kill()
	backendtest.Must(t, server.Restart(t.Context()))
	// The pool checks a connection before it uses it, so no command fails.
	backendtest.Must(t, rdb.Ping(t.Context()).Err())
	noticed()
}

// A client follows the sentinels to the new master, and notices the change.
func TestSentinelFailover(t *testing.T) {
	set := backendtest.Sentinels(t)
	rdb, w := watched(t, set.URL())
	checkCounts(t, rdb)
	checkRedisName(t, rdb, set.URL(), `master "oversell" of the sentinels`)
	noticed := changeOf(t, rdb, w)
	manyConnections(t, rdb, w)
	backendtest.Must(t, set.Failover(t.Context()))
	within(t, 20*time.Second, func() error { return rdb.Set(t.Context(), "after", "v", 0).Err() })
	promoted, _, _ := set.Nodes()
	if v := backendtest.DialRedis(t, promoted.URL).Get(t.Context(), "after").Val(); v != "v" {
		t.Errorf("the replica has %q, want the write after the failover", v)
	}
	noticed()
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
