//go:build !unix

package fleet

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

// terminate kills the child, because this operating system has no SIGTERM.
func (p *Process) terminate() { _ = p.cmd.Process.Kill() }
func (p *Process) killGroup() { _ = p.cmd.Process.Kill() }

// Pause returns ErrUnsupported.
func (p *Process) Pause() error { return ErrUnsupported }

// Continue returns ErrUnsupported.
func (p *Process) Continue() error { return ErrUnsupported }
