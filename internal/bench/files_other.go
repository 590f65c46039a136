//go:build !unix

package bench

// openFilesLimit returns false: there is no such limit here.
func openFilesLimit() (uint64, bool) { return 0, false }
