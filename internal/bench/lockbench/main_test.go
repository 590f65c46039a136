package lockbench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/guard"
)

// role makes this test binary a process of a row, instead of a run of tests.
const role = "OVERSELL_TEST_CONTEND"

func TestMain(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	if os.Getenv(role) != "" {
		os.Exit(process())
	}
	os.Exit(backendtest.Main(m))
}

func process() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := lockbench.Serve(ctx, contenders(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return 0
}

// processes are those of one test.
type processes struct {
	mu   sync.Mutex
	cmds []*exec.Cmd
}

func (p *processes) command() (*exec.Cmd, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), role+"=1")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmds = append(p.cmds, cmd)
	return cmd, nil
}

// checkEnded fails the test unless all have ended.
func (p *processes) checkEnded(t testing.TB) {
	t.Helper()
	for _, cmd := range p.cmds {
		if cmd.Process != nil && cmd.ProcessState == nil {
			t.Errorf("process %d still runs", cmd.Process.Pid)
		}
	}
}

// contenders is what the tests know besides the contenders of the project: locks
// that do not do their part.
func contenders() lockbench.Catalog {
	all := lockbench.Contenders()
	add := func(name string, g guard.Guard, err error) {
		all = append(all, lockbench.Contender{Name: name,
			Make: func(lockbench.Process) (guard.Guard, error) { return g, err }})
	}
	add("open", guard.None{}, nil)
	add("deaf", fake(func(ctx context.Context) error { // lets nobody in, and says nothing
		<-ctx.Done()
		return context.Cause(ctx)
	}), nil)
	add("rude", fake(func(context.Context) error { select {} }), nil) // does not return at the end of the wait
	add("liar", fake(func(context.Context) error { return errors.New("no room") }), nil)
	add("dies", fake(func(context.Context) error { os.Exit(7); return nil }), nil)
	add("unable", nil, errors.New("out of order"))
	return all
}

// fake lets nobody in.
type fake func(ctx context.Context) error

func (f fake) Do(ctx context.Context, _ guard.Entry, _ func(context.Context) error) (guard.Stats, error) {
	return guard.Stats{}, f(ctx)
}

// config is a small run on a Redis of the given kind.
func config(t testing.TB, kind string) (bench.Config, *processes) {
	t.Helper()
	p := new(processes)
	t.Cleanup(func() { p.checkEnded(t) })
	return bench.Config{
		RedisURL: backendtest.Redis(t, kind), Command: p.command,
		Requests: 60, Instances: 2, TTL: 2 * time.Second, Wait: 30 * time.Second,
	}, p
}

// runAll runs a config, also with the contenders of the tests.
func runAll(ctx context.Context, cfg bench.Config, p bench.Progress) ([]report.Row, error) {
	return lockbench.Run(ctx, contenders(), cfg, p)
}

// kinds are the kinds of Redis that the tests run on.
var kinds = backendtest.Kinds()
