// Package fleet runs processes that must not outlive this one or receive its Ctrl-C. It starts and
// ends them. It also contains the protocol on their pipes, the seams at which they are held or
// killed, the memory that they share, and the detection of their stalls.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// ErrUnsupported is returned by Pause and Continue if the operating system cannot stop and
// continue processes.
var ErrUnsupported = errors.New("this operating system cannot stop and continue a process")

// Self returns the command that runs this program with the given arguments. Its process is killed when
// ctx ends.
func Self(ctx context.Context, args ...string) (*exec.Cmd, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program's own file: %w", err)
	}
	return exec.CommandContext(ctx, path, args...), nil
}

// Process is a running child. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts cmd. It sets cmd.SysProcAttr.
func Start(cmd *exec.Cmd) (*Process, error) {
	cmd.SysProcAttr = attributes()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("running %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run starts the child and waits for it, both on the same thread. Linux sends the parent-death
// signal when the thread that started the child ends, not when the process does, so that thread
// must last as long as the child.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.done)
	// Wait also returns an error for a child that is ended on purpose (see State).
	_ = p.cmd.Wait()
}

// Done returns a channel that is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// State returns the state with which the child ended. Call it only after Done is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Pid returns the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the child. The error wraps os.ErrProcessDone if it has ended.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("sending %v to process %d: %w", sig, p.Pid(), err)
	}
	return nil
}

// Stop terminates the child (with SIGTERM on Unix), kills it if it is still running after grace,
// and waits for it to exit.
func (p *Process) Stop(grace time.Duration) {
	p.terminate()
	select {
	case <-p.done:
	case <-time.After(grace):
		p.Kill()
	}
}

// Kill kills the child and waits for it to exit.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error means that it has ended
	<-p.done
}

// KillGroup kills the child and the processes that it started, and waits for the child to exit.
func (p *Process) KillGroup() {
	p.killGroup()
	<-p.done
}
