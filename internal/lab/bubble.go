package lab

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// virtually runs f in virtual time: when everything that f started waits, the
// clock jumps to where the first wait ends. A lease of three seconds is over
// at once, and nothing ever comes too early or too late.
//
// It is testing/synctest, which is made for tests, but asks for no more than a
// *testing.T of which it makes its own; TestVirtualTime notices should that
// change. One bubble does for a whole run: timers that a client library pools
// must not get from one bubble into the next.
//
// What waits in f for something outside of it, such as a context from outside,
// stops the clock for good, so f must not.
func virtually(f func()) (err error) {
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

// lingering is ample for a goroutine to notice that its process is gone.
const lingering = time.Minute

func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("virtual time came to an end: %v", r)
	}
}
