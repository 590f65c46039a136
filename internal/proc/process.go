// Package proc is about processes: children that must not outlive this process nor
// hear the Ctrl-C that is meant for it, memory that they share with it, and how long
// a process stood still.
package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// ErrUnsupported is returned by Pause and Continue where the operating system
// cannot stop a process and let it go on.
var ErrUnsupported = errors.New("this operating system cannot stop a process and let it go on")

// Process is a child that is waited for from the moment it runs. It is safe
// for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

// Start runs cmd, whose SysProcAttr it sets.
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

// run starts the child and stays with it to its end, on one thread. Linux
// sends the parent-death signal when the thread that started the child ends,
// not the process, so that thread has to last as long as the child.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.done)
	// A child that was stopped on purpose ends with an error too; the one who
	// asks has State.
	_ = p.cmd.Wait()
}

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// State says how the child ended. It is only to be called after Done is closed.
func (p *Process) State() *os.ProcessState { return p.cmd.ProcessState }

// Pid is the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the child. It returns os.ErrProcessDone, wrapped, for
// one that has ended.
func (p *Process) Signal(sig os.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("sending %v to process %d: %w", sig, p.Pid(), err)
	}
	return nil
}

// Stop asks the child to end, kills it after grace, and waits for its end.
func (p *Process) Stop(grace time.Duration) {
	p.terminate()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.Kill()
	}
}

// Kill ends the child at once and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it can only be gone already
	<-p.done
}

// KillGroup kills the child and the processes it started itself, and waits
// for the child's end.
func (p *Process) KillGroup() {
	p.killGroup()
	<-p.done
}

// Pause stops the child wherever it is, a moment later; nothing of it runs
// then until Continue.
func (p *Process) Pause() error { return p.pause() }

// Continue lets a paused child go on.
func (p *Process) Continue() error { return p.resume() }
