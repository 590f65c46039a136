package backendtest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
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

// Build builds a program of the project in a folder, and returns the program's path.
func Build(t testing.TB, dir, pkg string) string {
	t.Helper()
	program := filepath.Join(dir, filepath.Base(pkg))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, pkg).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

var address = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// OpenShop starts the program of a shop with everything embedded, on a free port, and returns the
// shop's URL. The shop ends with the test.
func OpenShop(t testing.TB, program string, args ...string) (url string) {
	t.Helper()
	shop := exec.Command(program, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	out, err := shop.StdoutPipe()
	if err == nil {
		err = shop.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shop.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := shop.Wait(); err != nil {
			t.Error(err)
		}
	})
	for lines := bufio.NewScanner(out); url == "" && lines.Scan(); {
		url = address.FindString(lines.Text())
	}
	if url == "" {
		t.Fatal("the shop did not say where it listens")
	}
	return url // what the shop says after that fits into the pipe
}

// Output collects what a program writes while it runs. It is safe for concurrent use.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String returns what was written so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
