package coordination

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

func TestLocalEtcd(t *testing.T) {
	backendtest.System(t)
	backendtest.EmptyTempDir(t)
	etcd, err := ServeEtcd(t.Context(), "local")
	if err != nil { // not skipped: the go command builds etcd
		t.Fatal(err)
	}
	if err := etcd.Err(); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	etcd.server.Kill()
	if err := etcd.Err(); err == nil || !strings.Contains(err.Error(), "the private server has ended") {
		t.Errorf("killed: %v", err)
	}
	closes(t, etcd)
}

// closes checks that a server can be closed twice, and does not listen afterwards.
func closes(t *testing.T, s *Server) {
	t.Helper()
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if c, err := net.Dial("tcp", strings.TrimPrefix(s.Addresses[0], "http://")); err == nil {
		_ = c.Close()
		t.Error("it listens after Close")
	}
}

func TestLocalZooKeeper(t *testing.T) {
	backendtest.System(t)
	backendtest.EmptyTempDir(t)
	server, err := ServeZooKeeper(t.Context(), "local")
	backendtest.Must(t, err)
	backendtest.CloseAfter(t, server)
	for _, c := range []struct{ ask, want time.Duration }{
		{5 * time.Second, 5 * time.Second},
		{200 * time.Millisecond, time.Second}, // the server's shortest session timeout
		{time.Hour, time.Minute},              // and the longest
	} {
		conn, err := DialZooKeeper(t.Context(), server.Addresses, c.ask)
		backendtest.Must(t, err)
		if conn.Timeout != c.want {
			t.Errorf("asked for %v, got %v; want %v", c.ask, conn.Timeout, c.want)
		}
		conn.Close()
	}
	closes(t, server)
}

func TestMissingServers(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := ServeEtcd(t.Context(), "local")
	if !errors.Is(err, backend.ErrMissing) || !strings.Contains(err.Error(), "etcd.io") {
		t.Errorf("%v; want %v and how to install it", err, backend.ErrMissing)
	}
	_, err = ServeZooKeeper(t.Context(), "local")
	if !errors.Is(err, backend.ErrMissing) || !strings.Contains(err.Error(), "apt-get install") {
		t.Errorf("%v; want %v and how to install it", err, backend.ErrMissing)
	}
	empty := t.TempDir()
	t.Setenv("ZOOKEEPER_HOME", empty)
	if err := FindZooKeeper(); !errors.Is(err, backend.ErrMissing) || !strings.Contains(err.Error(), empty) {
		t.Errorf("%v; want %v and the empty folder", err, backend.ErrMissing)
	}
}

func TestStartIsGivenUp(t *testing.T) {
	backendtest.EmptyTempDir(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ServeEtcd(ctx, "local"); !errors.Is(err, context.Canceled) {
		t.Errorf("etcd: %v; want %v", err, context.Canceled)
	}
	_, err := ServeZooKeeper(ctx, "local")
	if !errors.Is(err, context.Canceled) && !errors.Is(err, backend.ErrMissing) {
		t.Errorf("zookeeper: %v; want %v", err, context.Canceled)
	}
}

func TestSpecs(t *testing.T) {
	ctx := t.Context()
	for spec, serve := range map[string]func(context.Context, string) (*Server, error){
		"http://a:2379/,http://[::1]:1": ServeEtcd, "a:2181,[::1]:1": ServeZooKeeper,
	} {
		own, err := serve(ctx, spec)
		backendtest.Must(t, err)
		if got := strings.Join(own.Addresses, ","); got != strings.Replace(spec, "/,", ",", 1) {
			t.Errorf("%q: %s", spec, got)
		}
		if err := errors.Join(own.Err(), own.Close()); err != nil {
			t.Error(err)
		}
	}
	bad := func(spec string, err error) {
		t.Helper()
		switch {
		case !errors.Is(err, backend.ErrSpec):
			t.Errorf("%q: %v; want %v", spec, err, backend.ErrSpec)
		case strings.Contains(err.Error(), "\n"), strings.Contains(err.Error(), "secret"),
			!strings.Contains(err.Error(), "allowed"):
			t.Errorf("%q: %v", spec, err)
		}
	}
	for _, spec := range []string{
		"", "embedded", "a:2379", "http://a", "http://a:0", "http://a:99999", "http://u:secret@a:1",
		"http://a:1,", "http://a:1/path", "redis://a:1",
	} {
		_, err := ServeEtcd(ctx, spec)
		bad(spec, err)
	}
	for _, spec := range []string{
		"", "embedded", "a", "a:", ":2181", "a:0", "a:1,", "a:2181/chroot", "zk://a:2181", "u:secret@a:1",
	} {
		_, err := ServeZooKeeper(ctx, spec)
		bad(spec, err)
	}
}

// Dialling a server that accepts connections but never answers fails in time.
func TestUnreachableIsToldInTime(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	backendtest.Must(t, err)
	t.Cleanup(func() { _ = deaf.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	backendtest.Must(t, err)
	_ = gone.Close()

	for name, l := range map[string]net.Listener{"deaf": deaf, "gone": gone} {
		addr := l.Addr().String()
		t.Run(name+" etcd", func(t *testing.T) {
			t.Parallel()
			inTime(t, func() error {
				client, err := DialEtcd(t.Context(), []string{"http://" + addr})
				if err == nil {
					_ = client.Close()
				}
				return err
			})
		})
		t.Run(name+" zookeeper", func(t *testing.T) {
			t.Parallel()
			inTime(t, func() error {
				conn, err := DialZooKeeper(t.Context(), []string{addr}, time.Second)
				if err == nil {
					conn.Close()
				}
				return err
			})
		})
	}
}

func inTime(t *testing.T, dial func() error) {
	t.Helper()
	start := time.Now()
	err := dial()
	if !errors.Is(err, backend.ErrUnreachable) {
		t.Errorf("%v; want %v", err, backend.ErrUnreachable)
	}
	if took := time.Since(start); took > dialTimeout+backendtest.Slack {
		t.Errorf("told after %v", took)
	}
}

// If no etcd is installed, one can be started only in the source tree, with the go command.
func TestFindEtcd(t *testing.T) {
	if _, err := exec.LookPath("etcd"); err == nil {
		t.Skip("an etcd is installed: it is found anywhere")
	}
	if err := FindEtcd(); err != nil {
		t.Errorf("in the source: %v", err)
	}
	t.Chdir(t.TempDir())
	if err := FindEtcd(); !errors.Is(err, backend.ErrMissing) {
		t.Errorf("elsewhere: %v; want %v", err, backend.ErrMissing)
	}
}
