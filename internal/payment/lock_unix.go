//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package payment

import (
	"errors"
	"os"
	"syscall"
)

// lock locks a file until it is closed or the process ends. It returns errInUse if another process
// has locked it.
func lock(file *os.File) error {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errInUse
		default:
			return err
		}
	}
}
