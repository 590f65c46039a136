//go:build unix

package proc

import "syscall"

// terminate asks the child to end. A paused one must be continued to hear it.
func (p *Process) terminate() {
	_ = p.Signal(syscall.SIGTERM) // it can only be gone already
	_ = p.Signal(syscall.SIGCONT)
}

// killGroup kills the child and what it started: it leads a process group.
func (p *Process) killGroup() { _ = syscall.Kill(-p.Pid(), syscall.SIGKILL) }

func (p *Process) pause() error  { return p.Signal(syscall.SIGSTOP) }
func (p *Process) resume() error { return p.Signal(syscall.SIGCONT) }
