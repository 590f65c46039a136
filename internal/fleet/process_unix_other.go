//go:build unix && !linux

package fleet

import "syscall"

// attributes gives a child its own process group, so that Ctrl-C in a terminal does not
// reach it while the program still needs it. These operating systems have no parent-death
// signal: a child outlives a program that is killed with SIGKILL.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
