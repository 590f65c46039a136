package local_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"oversell/internal/backend/backendtest"
	"oversell/internal/backend/local"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStartThatFailsSaysWhy(t *testing.T) {
	backendtest.Need(t, "redis-server")
	backendtest.EmptyTempDir(t)
	_, err := local.StartRedis(t.Context(), "--no-such-directive", "1")
	if err == nil || !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("error %v, want the server's own words", err)
	}
}

func TestStartGivesUpWithContext(t *testing.T) {
	backendtest.EmptyTempDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := local.Start(ctx, silent(t, time.Minute))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
}

func TestDatabaseStartGivesUpWithContext(t *testing.T) {
	backendtest.Need(t, "mariadb-install-db")
	backendtest.EmptyTempDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := local.StartDatabase(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want context.DeadlineExceeded", err)
	}
}

// silent describes a server that runs but never becomes ready.
func silent(t *testing.T, timeout time.Duration) local.Command {
	backendtest.Need(t, "sleep")
	return local.Command{
		Name:    "sleep",
		Path:    "/bin/sleep",
		Args:    func(string, int) []string { return []string{"60"} },
		Ready:   func(net.Conn) error { return nil },
		Timeout: timeout,
	}
}

// If the first port that Start chooses is in use, Start tries another port.
func TestStartTriesAnotherPort(t *testing.T) {
	backendtest.Need(t, "redis-server")
	path, err := local.RedisPath()
	backendtest.Must(t, err)
	var taken net.Listener
	s, err := local.Start(t.Context(), local.Command{
		Name:    "redis-server",
		Path:    path,
		Ready:   func(c net.Conn) error { return local.AnswersPing(c, "") },
		Timeout: 10 * time.Second,
		Prepare: func(_ context.Context, _ string, port int) error {
			if taken != nil {
				return nil
			}
			var err error
			taken, err = net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
			return err
		},
		Args: func(dir string, port int) []string {
			return []string{
				"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
				"--unixsocket", local.SocketPath(dir), "--save", "",
			}
		},
	})
	backendtest.Must(t, err)
	defer s.Close()
	defer taken.Close()
	if s.Addr == taken.Addr().String() {
		t.Errorf("the server has the port %s of another", s.Addr)
	}
}

func TestKillAndRestartKeepThePort(t *testing.T) {
	s := backendtest.RestartableRedis(t)
	addr, first := s.Addr, s.Pid()
	s.Kill()
	if s.Pid() != 0 {
		t.Error("a killed server has a pid")
	}
	if err := s.Pause(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("pausing a killed server: %v, want os.ErrProcessDone", err)
	}
	backendtest.Must(t, s.Restart(t.Context()))
	process, err := os.FindProcess(s.Pid())
	backendtest.Must(t, err)
	backendtest.Must(t, process.Kill())
	if err := s.Pause(); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("pausing a server that dies: %v, want os.ErrProcessDone", err)
	}
	backendtest.Must(t, s.Restart(t.Context()))
	if s.Addr != addr || s.Pid() == first {
		t.Errorf("address %s and pid %d, was %s and %d", s.Addr, s.Pid(), addr, first)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := s.Restart(ended); !errors.Is(err, context.Canceled) || s.Pid() != 0 {
		t.Errorf("restart that is given up: %v, pid %d; want context.Canceled, 0", err, s.Pid())
	}
	if err := s.Restart(t.Context()); err != nil || s.Pid() == 0 {
		t.Errorf("restart after that: %v, pid %d", err, s.Pid())
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Restart(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("restart after Close: %v, want os.ErrClosed", err)
	}
}

func TestCloseEndsAStoppedServer(t *testing.T) {
	s := backendtest.RestartableRedis(t)
	backendtest.Must(t, s.Pause())
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 2*time.Second+backendtest.Slack {
		t.Errorf("it took %v", took)
	}
}

// A Redis with an append-only log keeps its data if it is killed and restarted. After Forget has
// removed the log, the data is gone.
func TestForgetRemovesWhatAKilledServerHasWritten(t *testing.T) {
	s := backendtest.RestartableRedis(t, "--appendonly", "yes", "--appendfsync", "no")
	rdb := backendtest.DialRedis(t, s.URL)
	backendtest.Must(t, rdb.Set(t.Context(), "k", "v", 0).Err())
	if err := s.Forget("appendonlydir"); err == nil {
		t.Error("the files of a server that runs are removed")
	}
	for _, tt := range []struct {
		forget string
		want   string
	}{{"no-such-file", "v"}, {"appendonlydir", ""}} {
		s.Kill()
		backendtest.Must(t, s.Forget(tt.forget))
		backendtest.Must(t, s.Restart(t.Context()))
		again := backendtest.DialRedis(t, s.URL)
		if got := again.Get(t.Context(), "k").Val(); got != tt.want {
			t.Errorf("after a kill without %s the value is %q, want %q", tt.forget, got, tt.want)
		}
	}
	s.Kill()
	for _, name := range []string{"", ".", "..", "../other", "/etc"} {
		if err := s.Forget(name); err == nil {
			t.Errorf("Forget(%q) is let pass", name)
		}
	}
}
