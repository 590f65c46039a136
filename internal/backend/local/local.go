// Package local runs private servers for the lifetime of one program: a redis-server, a
// mariadbd, an etcd or a ZooKeeper. Each listens on a free loopback port and has all
// its files in a temporary folder.
//
// A server does not outlive the program. Close stops it and removes the folder. On Linux, a
// server also dies if the program is killed, but then its folder is left behind.
package local

import (
	"context"
	crypto "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"oversell/internal/fleet"
)

// ErrMissing means that a binary that a server needs is not in the PATH. The text of an error
// that wraps it names the binary and a way to install it.
var ErrMissing = errors.New("not found in PATH")

// host is the only address on which the servers listen.
const host = "127.0.0.1"

// stopGrace is the time that a server may take to exit after a termination signal before it
// is killed. Its data is deleted anyway, so killing it does no harm.
const stopGrace = 5 * time.Second

// Command describes how to run a server and how to check that it is ready.
type Command struct {
	// Name is the server's name in errors.
	Name string
	// Path is the executable.
	Path string
	// Args returns the arguments for a server that keeps its files in dir, and listens on
	// port of 127.0.0.1. Unless OnPort is set, it also listens on the socket SocketPath(dir).
	Args func(dir string, port int) []string
	// Prepare creates the files that the first start needs. It may be nil.
	Prepare func(ctx context.Context, dir string, port int) error
	// Ready asks the server at c whether it is ready for use. It returns nil if the server is
	// ready. After an error, Ready is called again.
	Ready func(c net.Conn) error
	// Without, if not empty, is a prefix of environment variables: the server does not get
	// variables whose names begin with it.
	Without string
	// OnPort means that the server has no socket, so Ready gets a connection to its port.
	OnPort bool
	// Timeout limits each call to Start, including Prepare, and each Restart.
	Timeout time.Duration
	// InMemory means that the files are small and that the server waits for the disk when it
	// writes them. The folder is then kept in memory if the system has /dev/shm, unless
	// TMPDIR is set.
	InMemory bool
}

// SocketPath returns the path of the Unix socket of a server whose files are in dir.
// Readiness is checked on the socket, not on the port, because another process may have
// taken the port in the meantime.
func SocketPath(dir string) string { return filepath.Join(dir, "s") }

// Server is a server process that this package has started. It is safe for concurrent use.
type Server struct {
	// Addr is the host:port to dial.
	Addr string

	command Command
	dir     string
	port    int

	mu      sync.Mutex
	process *fleet.Process
	closed  bool
}

// Start runs a server and returns when it is ready. Errors wrap those of exec or ctx, or contain
// the last lines that the server logged.
func Start(ctx context.Context, c Command) (*Server, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	// A port that was free a moment ago may be taken when the server tries to listen on it.
	// In that case Start tries a few other ports.
	for attempt := 1; ; attempt++ {
		s, err := startOnce(ctx, c)
		if err == nil {
			return s, nil
		}
		if attempt == 5 || !portTaken(err) {
			return nil, fmt.Errorf("start a local %s: %w", c.Name, err)
		}
	}
}

func startOnce(ctx context.Context, c Command) (*Server, error) {
	dir, err := tempDir(c.InMemory)
	if err != nil {
		return nil, err
	}
	s := &Server{command: c, dir: dir}
	if err := s.prepareAndRun(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) prepareAndRun(ctx context.Context) error {
	var err error
	if s.port, err = FreePort(); err != nil {
		return err
	}
	s.Addr = net.JoinHostPort(host, strconv.Itoa(s.port))
	if s.command.Prepare != nil {
		if err := s.command.Prepare(ctx, s.dir, s.port); err != nil {
			return err
		}
	}
	return s.run(ctx)
}

// run starts the process and waits until it is ready.
func (s *Server) run(ctx context.Context) error {
	log := filepath.Join(s.dir, "log")
	cmd := exec.Command(s.command.Path, s.command.Args(s.dir, s.port)...)
	cmd.Dir = s.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return s.command.Without != "" && strings.HasPrefix(variable, s.command.Without)
	})
	p, err := startLogged(cmd, log)
	if err != nil {
		return err
	}
	if err := s.awaitReady(ctx, p, log); err != nil {
		p.Kill()
		return err
	}
	s.process = p
	return nil
}

// awaitReady asks the server every few milliseconds whether it is ready. It returns nil when the
// server is ready, or an error if the server dies or ctx ends.
func (s *Server) awaitReady(ctx context.Context, p *fleet.Process, log string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.Done():
			return fmt.Errorf("it ended at once (%s)%s", p.State(), lastLines(log))
		case <-ctx.Done():
			return fmt.Errorf("it did not become ready: %w%s", context.Cause(ctx), lastLines(log))
		case <-tick.C:
			if s.ask() == nil {
				return nil
			}
		}
	}
}

func (s *Server) ask() error {
	network, addr := "unix", SocketPath(s.dir)
	if s.command.OnPort {
		network, addr = "tcp", s.Addr
	}
	c, err := net.DialTimeout(network, addr, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	return s.command.Ready(c)
}

// Pid returns the id of the server's process, or 0 if the server is not running.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	select {
	case <-s.process.Done(): // the process has died by itself
		return 0
	default:
		return s.process.Pid()
	}
}

// Pause stops the server's process until Continue. Like a machine that hangs, the server
// keeps its connections and accepts new ones, but does not answer. Pause and Continue fail on
// operating systems that cannot pause a process.
func (s *Server) Pause() error {
	if err := s.withProcess((*fleet.Process).Pause); err != nil {
		return err
	}
	for range 1000 { // one of its threads may run for a moment longer and answer
		pid := s.Pid()
		if pid == 0 {
			return fmt.Errorf("pause %s: %w", s.command.Name, os.ErrProcessDone)
		}
		if halted(pid) {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("pause %s: it goes on", s.command.Name)
}

// halted reports whether /proc shows that all threads of a process are stopped. On an operating
// system without /proc, it returns true.
func halted(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if len(threads) == 0 { // on Linux, the process has ended
		return runtime.GOOS != "linux"
	}
	return !slices.ContainsFunc(threads, func(thread string) bool {
		stat, err := os.ReadFile(thread)
		return err != nil || !strings.Contains(string(stat), ") T ")
	})
}

// Continue resumes a paused server.
func (s *Server) Continue() error { return s.withProcess((*fleet.Process).Continue) }

func (s *Server) withProcess(do func(*fleet.Process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return fmt.Errorf("pause or continue %s: %w", s.command.Name, os.ErrProcessDone)
	}
	if err := do(s.process); err != nil {
		return fmt.Errorf("pause or continue %s: %w", s.command.Name, err)
	}
	return nil
}

// Kill kills the server and waits for it to exit. Its files are kept for Restart.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// Restart starts a killed server again on the same port and with the same files. If the
// server is still running, Restart kills it first.
func (s *Server) Restart(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("restart %s: %w", s.command.Name, os.ErrClosed)
	}
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.command.Timeout)
	defer cancel()
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", s.command.Name, err)
	}
	return nil
}

// Forget removes a file or folder of a killed server, so that the server restarts without
// that data. The name is relative to the server's folder.
func (s *Server) Forget(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return fmt.Errorf("remove %s of %s: it still runs", name, s.command.Name)
	}
	if !filepath.IsLocal(name) || filepath.Clean(name) == "." {
		return fmt.Errorf("remove %s of %s: not the name of one of its files", name, s.command.Name)
	}
	if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
		return fmt.Errorf("remove %s of %s: %w", name, s.command.Name, err)
	}
	return nil
}

// Close terminates the server, kills it if it is still running after 5 seconds, waits for
// it to exit, and removes its files. Calls after the first do nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.process != nil {
		s.process.Stop(stopGrace)
		s.process = nil
	}
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("remove the files of %s: %w", s.command.Name, err)
	}
	return nil
}

// tempDir creates the folder of one server. A Unix socket's path may not exceed
// 104 bytes on some systems, so /tmp is used instead of a long TMPDIR.
func tempDir(inMemory bool) (string, error) {
	if inMemory && os.Getenv("TMPDIR") == "" {
		if dir, err := os.MkdirTemp("/dev/shm", "oversell-"); err == nil {
			return dir, nil
		}
	}
	parent := os.TempDir()
	if len(parent) > 70 {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "oversell-")
	if err != nil {
		return "", fmt.Errorf("make a temporary folder: %w", err)
	}
	return dir, nil
}

// FreePort returns an unused TCP port of the loopback interface, below those that Linux, macOS and
// Windows give to clients and to listeners on port 0 by default: otherwise one of them might have the
// port of a server that is killed before the server is restarted. FreePort does not reserve the port.
func FreePort() (int, error) {
	const lowest, ports, tries = 10_000, 20_000, 100
	var last error
	for range tries {
		port := lowest + rand.IntN(ports)
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
		last = err
	}
	return 0, fmt.Errorf("find a free port: %w", last)
}

// portTaken reports whether the server's log shows that it died because another
// process took its port.
func portTaken(err error) bool {
	return strings.Contains(strings.ToLower(err.Error()), "already in use")
}

// startLogged starts cmd. Its output goes to the file log.
func startLogged(cmd *exec.Cmd, log string) (*fleet.Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	defer out.Close() // the child has its own handle
	cmd.Stdout, cmd.Stderr = out, out
	return fleet.Start(cmd)
}

// lastLines returns the last lines of a log, in a form that can be appended to an error message.
func lastLines(log string) string {
	const most = 8
	b, err := os.ReadFile(log)
	if err != nil || len(b) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return "; it logged:\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// newSecret returns a random password. It needs no escaping in a URL, in SQL or in a
// configuration file.
func newSecret() string { return crypto.Text() }

// writeSecret writes a file in the folder dir that no other user can read. Servers get their
// passwords from such a file, because all users can see command lines.
func writeSecret(dir, name, text string) error {
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the file %s: %w", name, err)
	}
	return nil
}
