package lab

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// InVirtualTime runs f in virtual time, outside of a test. It returns an error if f panics, or
// leaves a goroutine behind that waits for ever.
//
// When everything in it waits, the clock jumps to where the first wait ends, so that a lease of
// three seconds is over at once and nothing comes too early or too late. The standard library
// offers that only to tests. synctest.Test takes a *testing.T, but asks of it no more than that
// it exists: it makes one of its own for the function that it runs. So a zero *testing.T will
// do. That is not documented, and a later release of Go may change it; TestVirtualTime notices.
// For this trick to be in one place only, nothing else in the lab imports testing or
// testing/synctest outside of its tests.
//
// f must not wait for anything outside of it, such as a context that was made before:
// that stops the clock for good. Nothing that was made in one InVirtualTime may be used in
// another: timers that a client library pools must not get from one into the next,
// so one of them should do for everything that uses such a library without bounds.
func InVirtualTime(f func()) (err error) {
	defer recovered(&err) // a goroutine was left that waits for ever
	synctest.Test(new(testing.T), func(*testing.T) {
		defer recovered(&err) // f panicked
		f()
		// Time stops with this function, and a lock whose process is gone may
		// sleep before it notices.
		time.Sleep(lingering)
	})
	return err
}

// AwaitOthers returns when every other goroutine of the InVirtualTime waits.
func AwaitOthers() { synctest.Wait() }

// lingering is ample for a goroutine to notice that its process is gone.
const lingering = time.Minute

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("virtual time came to an end: %v", r)
	}
}
