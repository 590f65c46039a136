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

// role is the environment variable that contains a process's role, if a test has started
// the test binary as a process (see Play).
const role = "OVERSELL_TEST_ROLE"

// If this process was started by Processes, Play runs serve with the process's role, and exits.
// Otherwise it does nothing. TestMain must call Play first.
func Play(serve func(ctx context.Context, role string, in io.Reader, out, log io.Writer) error) {
	logging.Disable() // go-redis also returns the errors that it logs
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

// Processes creates and tracks commands that run the test's own binary. It is safe for
// concurrent use.
type Processes struct {
	mu   sync.Mutex
	cmds []*exec.Cmd
}

// Command returns a function that makes a command. The command starts this binary in the role as.
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

// All returns all commands created so far.
func (p *Processes) All() []*exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmds
}

// CheckEnded fails the test if any of the processes is still running.
func (p *Processes) CheckEnded(t testing.TB) {
	t.Helper()
	for _, cmd := range p.All() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			t.Errorf("process %d still runs", cmd.Process.Pid)
		}
	}
}
