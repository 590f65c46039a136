// Package fence refuses late holders of a lock. A holder that was paused for longer than its
// lease still believes that it has the lock, and no lock can prevent that. The resource can: it
// remembers the largest fencing token that it has seen, and refuses a smaller one.
//
// Value does this for a value in Redis, Show for any resource in an SQL database. A holder shows
// its token with its first read, not only with its writes: otherwise a late holder could still
// write between the next holder's read and its write.
//
// Fencing tokens are Martin Kleppmann's answer to paused holders ("How to do distributed locking",
// 2016). The package imports nothing from this project, and can be copied on its own.
package fence

import "errors"

// ErrStaleToken means that a larger token has been seen: the holder has lost its lock, and another
// holder has used the resource since. Nothing was read or written.
var ErrStaleToken = errors.New("fence: stale token: a later holder has been here")

// StaleError is an ErrStaleToken with the largest token that the resource has seen. If a lock's
// tokens went backwards, because its server's clock or memory did, the lock can use it to give the
// holder a larger one.
type StaleError struct{ Seen int64 }

func (StaleError) Error() string { return ErrStaleToken.Error() }
func (StaleError) Unwrap() error { return ErrStaleToken }

// ErrMissing means that the value or resource does not exist.
var ErrMissing = errors.New("fence: not found")
