//go:build unix && !linux

package proc

import "syscall"

// attributes puts a child into a process group of its own, so that Ctrl-C in a
// terminal reaches the program but not its children, which it still needs to
// finish. There is no parent-death signal here: a child outlives a program
// that is killed with SIGKILL.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
