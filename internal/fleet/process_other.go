//go:build !unix

package fleet

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

// terminate kills the child: there is no SIGTERM here.
func (p *Process) terminate() { _ = p.cmd.Process.Kill() }
func (p *Process) killGroup() { _ = p.cmd.Process.Kill() }

// Pause is not possible here.
func (p *Process) Pause() error { return ErrUnsupported }

// Continue is not possible here.
func (p *Process) Continue() error { return ErrUnsupported }
