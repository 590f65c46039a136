// Package virtualtime runs code in virtual time, OUTSIDE of a test, by calling
// testing/synctest with a *testing.T that no test has made.
//
// The lab needs virtual time: when everything in it waits, the clock jumps to where
// the first wait ends, so that a lease of three seconds is over at once and nothing
// comes too early or too late. The standard library offers that only to tests.
// synctest.Test takes a *testing.T, but asks of it no more than that it exists: it
// makes one of its own for the function that it runs. So a zero *testing.T will do.
//
// That is not documented, and a later release of Go may change it; TestRun notices.
// For this trick to be in one place only, no other package of the lab imports testing
// or testing/synctest outside of its tests.
package virtualtime

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Run runs f in virtual time. It returns an error if f panics, or leaves a goroutine
// behind that waits for ever.
//
// f must not wait for anything outside of it, such as a context that was made before:
// that stops the clock for good. Nothing that was made in one Run may be used in
// another: timers that a client library pools must not get from one into the next,
// so one Run should do for everything that uses such a library without bounds.
func Run(f func()) (err error) {
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

// Wait returns when every other goroutine of the Run waits.
func Wait() { synctest.Wait() }

// lingering is ample for a goroutine to notice that its process is gone.
const lingering = time.Minute

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("virtual time came to an end: %v", r)
	}
}
