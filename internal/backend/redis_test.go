package backend_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
)

func TestRedisRoundTrip(t *testing.T) {
	for spec, name := range map[string]string{"embedded": "miniredis", "local": "redis "} {
		t.Run(spec, func(t *testing.T) {
			url := backendtest.Redis(t, spec)
			rdb := backendtest.DialRedis(t, url)
			other := backendtest.DialRedis(t, url)
			backendtest.Must(t, rdb.Set(t.Context(), "k", "v", time.Minute).Err())
			if v, err := other.Get(t.Context(), "k").Result(); v != "v" || err != nil {
				t.Errorf("another client reads %q, %v", v, err)
			}
			checkRedisName(t, rdb, url, name)
			checkCounts(t, rdb)
		})
	}
}

func checkRedisName(t *testing.T, rdb redis.UniversalClient, url, want string) {
	t.Helper()
	name, err := backend.RedisName(t.Context(), rdb, url)
	if err != nil || !strings.Contains(name, want) {
		t.Errorf("name %q, %v; want it to contain %q", name, err, want)
	}
	if strings.Contains(name, "secret") {
		t.Errorf("name %q has the password", name)
	}
}

// checkCounts runs ten commands and checks that they are counted.
func checkCounts(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	before, err := backend.RedisCommands(t.Context(), rdb)
	backendtest.Must(t, err)
	for i := range 10 {
		// In a cluster, different keys are on different masters.
		backendtest.Must(t, rdb.Set(t.Context(), string(rune('a'+i)), "v", 0).Err())
	}
	after, err := backend.RedisCommands(t.Context(), rdb)
	if err != nil || *after-*before < 10 {
		t.Errorf("counted %d commands, %v; want at least 10", *after-*before, err)
	}
}

func TestEmbeddedRedisTTLRunsByItself(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	backendtest.Must(t, rdb.Set(t.Context(), "k", "v", 20*time.Millisecond).Err())
	within(t, time.Second, func() error {
		if n := rdb.Exists(t.Context(), "k").Val(); n != 0 {
			return errors.New("the key is still there")
		}
		return nil
	})
}

func TestDialRedisUnreachable(t *testing.T) {
	hung := backendtest.RestartableRedis(t)
	backendtest.Must(t, hung.Pause())
	locked := backendtest.RestartableRedis(t, "--requirepass", "right")
	single := backendtest.RestartableRedis(t)
	for name, url := range map[string]string{
		"refused":          "redis://:secret@127.0.0.1:1",
		"refused cluster":  "redis://:secret@127.0.0.1:1,127.0.0.1:2",
		"refused sentinel": "redis+sentinel://:secret@127.0.0.1:1/name",
		"refused tls":      "rediss://:secret@127.0.0.1:1",
		"hung":             hung.URL,
		"hung cluster":     hung.URL + "," + hung.Addr,
		"hung sentinel":    "redis+sentinel://" + hung.Addr + "/name",
		"no tls":           "rediss://" + single.Addr,
		"no cluster":       single.URL + "," + single.Addr,
		"no sentinel":      "redis+sentinel://" + single.Addr + "/name",
		"wrong password":   "redis://:secret@" + locked.Addr,
		"no password":      "redis://" + locked.Addr,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := backend.DialRedis(t.Context(), url, 0)
			if !errors.Is(err, backend.ErrUnreachable) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want ErrUnreachable without the password", err)
			}
			if took := time.Since(start); took > 3*time.Second+backendtest.Slack {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestDialRedisHonoursContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := backend.DialRedis(ctx, backendtest.Redis(t, "embedded"), 0)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestServeRedisLeavesTheUsersAlone(t *testing.T) {
	own := backendtest.RestartableRedis(t, "--requirepass", "secret")
	url := "redis://:secret@" + own.Addr
	s, err := backend.ServeRedis(t.Context(), url)
	backendtest.Must(t, err)
	backendtest.Must(t, s.Close())
	rdb := backendtest.DialRedis(t, s.URL)
	checkRedisName(t, rdb, s.URL, "at "+own.Addr)
}

func TestRedisThatFails(t *testing.T) {
	server := backendtest.RestartableRedis(t)
	rdb := backendtest.DialRedis(t, server.URL)
	ends := func(limit time.Duration, what string, times int, ctx context.Context) {
		t.Helper()
		start := time.Now()
		for range times {
			if err := rdb.Ping(ctx).Err(); err == nil {
				t.Fatalf("%s answers", what)
			}
		}
		if took := time.Since(start); took > limit+backendtest.Slack {
			t.Errorf("%s: %d errors took %v", what, times, took)
		}
	}
	back := func(err error) {
		t.Helper()
		backendtest.Must(t, err)
		within(t, 2*time.Second+backendtest.Slack, func() error { return rdb.Ping(t.Context()).Err() })
	}
	server.Kill()
	ends(time.Second, "a killed server", 20, t.Context())
	back(server.Restart(t.Context()))
	backendtest.Must(t, server.Pause())
	ends(2*time.Second, "a hung server", 1, t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ends(time.Second, "a hung server, for 50 ms", 1, ctx)
	back(server.Continue())
}

// With a small pool, commands to a hung server queue up for a connection. A command still fails
// in time, and does not wait until all commands ahead of it have timed out.
func TestRedisHungQueueIsBounded(t *testing.T) {
	t.Parallel() // the test only waits
	server := backendtest.RestartableRedis(t)
	rdb := backendtest.DialRedis(t, server.URL+"?pool_size=1&read_timeout=300ms")
	backendtest.Must(t, server.Pause())
	start := time.Now()
	var all sync.WaitGroup
	for range 60 { // 18 s if they ran one after the other
		all.Go(func() {
			if err := rdb.Ping(t.Context()).Err(); err == nil {
				t.Error("a hung server answers")
			}
		})
	}
	all.Wait()
	if took := time.Since(start); took > 9*time.Second+backendtest.Slack {
		t.Errorf("the last error came after %v", took)
	}
	backendtest.Must(t, server.Continue())
	within(t, 2*time.Second+backendtest.Slack, func() error { return rdb.Ping(t.Context()).Err() })
}

func TestLocalWithoutBinaries(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := backend.ServeRedis(t.Context(), "local")
	if !errors.Is(err, backend.ErrMissing) || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("error %v, want ErrMissing and how to install it", err)
	}
	_, err = backend.ServeDatabase(t.Context(), "local")
	if !errors.Is(err, backend.ErrMissing) || !strings.Contains(err.Error(), "apt-get install mariadb-server") {
		t.Errorf("error %v, want ErrMissing and how to install it", err)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	backendtest.Need(t, "redis-server", "mariadbd")
	dir := backendtest.EmptyTempDir(t)
	type server interface{ Close() error }
	for _, spec := range backendtest.Kinds() {
		r, err := backend.ServeRedis(t.Context(), spec)
		backendtest.Must(t, err)
		d, err := backend.ServeDatabase(t.Context(), spec)
		backendtest.Must(t, err)
		_, addr, _ := strings.Cut(r.URL, "@")
		if c, err := net.Dial("tcp", addr); err != nil {
			t.Errorf("%s: redis does not listen: %v", spec, err)
		} else {
			c.Close()
		}
		for _, s := range []server{r, d, r, d} { // closing a server twice is allowed
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("%s: redis still listens", spec)
		}
	}
	if pids := mentioning(dir); len(pids) > 0 {
		t.Errorf("processes left behind: %q", pids)
	}
}

// mentioning returns the ids of the processes with s in their command line, if /proc exists.
func mentioning(s string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if line, _ := os.ReadFile(file); strings.Contains(string(line), s) {
			pids = append(pids, filepath.Dir(file))
		}
	}
	return pids
}

// within repeats f until it succeeds, for at most limit.
func within(t *testing.T, limit time.Duration, f func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still after %v: %v", limit, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

func TestRedisTLSWithPassword(t *testing.T) {
	url := backendtest.SecuredRedis(t)
	rdb := backendtest.DialRedis(t, url)
	checkCounts(t, rdb)
	checkRedisName(t, rdb, url, "at 127.0.0.1:")

	for name, url := range map[string]string{
		"unknown certificate": strings.TrimSuffix(url, "?skip_verify=true"),
		"wrong password":      strings.Replace(url, "p%40ss", "other", 1),
	} {
		_, err := backend.DialRedis(t.Context(), url, 0)
		if !errors.Is(err, backend.ErrUnreachable) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error %v, want ErrUnreachable without the password", name, err)
		}
	}
}

// The embedded Redis refuses clients without its password, because every user of the machine can dial it.
func TestEmbeddedRedisLetsNobodyInWithoutItsPassword(t *testing.T) {
	url := backendtest.Redis(t, "embedded")
	_, addr, found := strings.Cut(url, "@")
	if !found {
		t.Fatal("the URL has no password")
	}
	for _, password := range []string{"", "wrong"} {
		rdb := redis.NewClient(&redis.Options{Addr: addr, Password: password, DisableIdentity: true})
		defer rdb.Close()
		if err := rdb.Set(t.Context(), "k", "v", 0).Err(); err == nil {
			t.Errorf("a client with the password %q is let in", password)
		}
	}
	if err := backendtest.DialRedis(t, url).Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
}
