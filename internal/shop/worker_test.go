package shop_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/shop"
	"oversell/internal/stock"
)

// These environment variables tell a child process its kind and its backends.
const (
	childEnv      = "OVERSELL_TEST_CHILD"
	childRedisEnv = "OVERSELL_TEST_REDIS"
	childDBEnv    = "OVERSELL_TEST_DB"
)

// The kinds of children.
const (
	unpublished = "unpublished" // a shop that stops before it publishes a generation in Redis
	published   = "published"   // a shop that stops after that, before it marks the row as published
	successor   = "successor"   // a shop that does not stop
)

// child runs the shop of a child process, until the process is killed or its standard input ends.
func child(kind string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // standard input ends with the parent
		cancel()
	}()
	cfg := config(os.Getenv(childRedisEnv), os.Getenv(childDBEnv), 0)
	cfg.Item = nil
	cfg.Strategy, cfg.NoConsumer = "lua_stream", true
	cfg.Ready = func(addr string) { fmt.Println("ready", addr) }
	if kind != successor {
		cfg.Hook = atPublication(kind, func(string) error {
			fmt.Println("stopped")
			select {}
		})
	}
	return shop.Run(ctx, cfg)
}

// process is a running child.
type process struct {
	cmd  *exec.Cmd
	said *bufio.Scanner
}

// startChild starts a child, waits until its shop is ready, and returns the shop's address.
func startChild(t *testing.T, kind, redisURL, dbURL string) (*process, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+kind, childRedisEnv+"="+redisURL, childDBEnv+"="+dbURL)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	p := &process{cmd, bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = in.Close()
		p.kill()
	})
	return p, strings.TrimSpace(strings.TrimPrefix(p.next(t), "ready"))
}

// next returns the next line that the child prints.
func (p *process) next(t *testing.T) string {
	t.Helper()
	if !p.said.Scan() {
		t.Fatalf("the child ended: %v", p.said.Err())
	}
	return p.said.Text()
}

// kill kills the process with SIGKILL, unless it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // the process may have ended already
	_ = p.cmd.Wait()         // the error only says that the process was killed
}

// drained waits until nothing is in flight and returns the audit.
func drained(t *testing.T, r *running) stock.Audit {
	t.Helper()
	for ; ; time.Sleep(10 * time.Millisecond) {
		if a := r.audit(t).Audit; a.InFlight == 0 {
			return a
		}
	}
}

// A worker writes the orders that a shop has accepted but not written, and logs when it ends.
func TestAWorkerWritesTheOrdersOfAShop(t *testing.T) {
	cfg := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 60)
	cfg.Strategy, cfg.NoConsumer = "lua_stream", true
	r := open(t, cfg)
	r.accept(t, 20)
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- shop.Work(ctx, cfg) }()
	if a := drained(t, r); a.Sold != 20 || a.LostUpdates != 0 {
		t.Errorf("the audit finds %+v", a)
	}
	cancel()
	must(t, <-ended)
	if !strings.Contains(log.String(), "msg=closing") {
		t.Errorf("the log does not say that the worker ends:\n%s", &log)
	}
}
