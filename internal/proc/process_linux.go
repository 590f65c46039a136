package proc

import "syscall"

// attributes puts a child into a process group of its own, so that Ctrl-C in a
// terminal reaches the program but not its children, which it still needs to
// finish; and has the kernel kill the child when the program is gone.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
