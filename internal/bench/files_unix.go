//go:build unix

package bench

import "syscall"

// openFilesLimit returns the number of files that this process may have open. Go raises the soft
// limit to the hard one when a program starts.
func openFilesLimit() (uint64, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true
}
