// Package fence lets a resource refuse late holders of a lock. A holder that was paused for longer
// than its lease still acts as if it had the lock, and no lock can prevent that. The resource can
// prevent it: it remembers the largest fencing token that it has seen, and refuses smaller ones.
//
// Value does this for a value in Redis, and Show for any resource in an SQL database. A holder
// must show its token with its first read, not only with its writes: otherwise a late holder could
// still write between the next holder's read and write.
//
// Fencing tokens are Martin Kleppmann's answer to paused holders ("How to do distributed locking",
// 2016). The package imports nothing from this project, and can be copied on its own.
package fence

import "errors"

// ErrStaleToken means that the resource has seen a larger token: the holder has lost its lock, and
// another holder has used the resource since then. Nothing was read or written.
var ErrStaleToken = errors.New("fence: stale token: a later holder has been here")

// StaleError is an ErrStaleToken with the largest token that the resource has seen. A lock's tokens
// become smaller if the clock of its server is set back or the server loses its data. The lock can
// then use Seen to give the holder a larger token.
type StaleError struct{ Seen int64 }

func (StaleError) Error() string { return ErrStaleToken.Error() }
func (StaleError) Unwrap() error { return ErrStaleToken }

// ErrMissing means that the value or resource does not exist.
var ErrMissing = errors.New("fence: not found")
