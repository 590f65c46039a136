//go:build unix

package shop

import (
	"math"
	"syscall"
)

// OpenFiles returns the limit on open files of this process. Go raises the soft limit to
// the hard one when a program starts.
func OpenFiles() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(uint64(limit.Cur), math.MaxInt32))
}
