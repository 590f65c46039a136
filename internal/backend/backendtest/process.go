package backendtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9/logging"
)

// role is the environment variable by which a test binary knows that a test has started it as a
// process, see Play.
const role = "OVERSELL_TEST_ROLE"

// Play runs serve, with this process's role, and exits, if the process was started by Processes.
// Otherwise it does nothing. TestMain calls it first.
func Play(serve func(ctx context.Context, role string, in io.Reader, out, log io.Writer) error) {
	logging.Disable() // go-redis also returns the errors that it would print
	as := os.Getenv(role)
	if as == "" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, as, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

// Processes starts and tracks processes of the test's own binary. It is safe for concurrent use.
type Processes struct {
	mu   sync.Mutex
	cmds []*exec.Cmd
}

// Command returns a function that makes a command to start this binary in a role.
func (p *Processes) Command(as string) func() (*exec.Cmd, error) {
	return func() (*exec.Cmd, error) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), role+"="+as)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.cmds = append(p.cmds, cmd)
		return cmd, nil
	}
}

// All returns all commands made so far.
func (p *Processes) All() []*exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmds
}

// CheckEnded fails the test unless all processes have ended.
func (p *Processes) CheckEnded(t testing.TB) {
	t.Helper()
	for _, cmd := range p.All() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			t.Errorf("process %d still runs", cmd.Process.Pid)
		}
	}
}
