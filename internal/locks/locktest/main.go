package locktest

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Main runs the tests of a stage whose holds are renewed. They fail if a test leaves a goroutine
// behind, or a hold, which would be renewed on and on: left returns the number of holds.
func Main(m *testing.M, left func() int) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if n := left(); code == 0 && n > 0 {
			fmt.Println("holds left behind:", n)
			code = 1
		}
		os.Exit(code)
	}))
}
