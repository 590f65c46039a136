package lab

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// InVirtualTime runs f in virtual time, outside of a test. It returns an error if f panics or
// leaves behind a goroutine that waits forever.
//
// When all of f's goroutines wait, the clock jumps to the end of the shortest wait. So a lease of
// three seconds expires at once, and nothing happens too early or too late. The standard library
// offers virtual time only to tests. synctest.Test takes a *testing.T, but does not use it: it
// makes its own for the function that it runs. So a zero *testing.T is enough. This is not
// documented, and TestVirtualTime fails if a later release of Go changes it. To keep this trick in
// one place, nothing else in the lab imports testing or testing/synctest outside of tests.
//
// f must not wait for anything made outside, such as a context, because the clock would stop for
// good. Nothing that was made in one call to InVirtualTime may be used in another. That includes
// timers that a client library pools, so all code that uses such a library without restrictions
// should run in a single call to InVirtualTime.
func InVirtualTime(f func()) (err error) {
	defer recovered(&err) // synctest panics if a goroutine that waits forever was left behind
	synctest.Test(new(testing.T), func(*testing.T) {
		defer recovered(&err) // f panicked
		f()
		// Virtual time ends with this function, and a lock may sleep before it notices that its
		// process is gone.
		time.Sleep(time.Minute)
	})
	return err
}

// awaitOthers returns when all other goroutines in the same InVirtualTime are blocked.
func awaitOthers() { synctest.Wait() }

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("virtual time came to an end: %v", r)
	}
}
