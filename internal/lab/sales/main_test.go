package sales

import (
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()       // go-redis returns the errors that it would print
	debug.SetGCPercent(400) // the lab allocates a lot and keeps little of it
	// A client of a killed process tries to dial again, and notices only a second later that it
	// is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
