package fleet

import "syscall"

// attributes gives a child its own process group, so that Ctrl-C in a terminal does not
// reach it while the program still needs it, and makes the kernel kill the child when
// the program ends.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
