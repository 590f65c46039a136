//go:build !unix

package proc

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }

// terminate ends the child; there is no polite way here.
func (p *Process) terminate() { _ = p.cmd.Process.Kill() }
func (p *Process) killGroup() { _ = p.cmd.Process.Kill() }

func (p *Process) pause() error  { return ErrUnsupported }
func (p *Process) resume() error { return ErrUnsupported }
