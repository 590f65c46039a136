//go:build unix

package fleet

import "syscall"

// terminate sends SIGTERM. A paused child must be continued to receive it.
func (p *Process) terminate() {
	_ = p.Signal(syscall.SIGTERM) // an error means that it has ended
	_ = p.Signal(syscall.SIGCONT)
}

// killGroup kills the process group that the child leads.
func (p *Process) killGroup() { _ = syscall.Kill(-p.Pid(), syscall.SIGKILL) }

// Pause stops the child until Continue. Its threads stop a moment later.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Continue continues a paused child.
func (p *Process) Continue() error { return p.Signal(syscall.SIGCONT) }
