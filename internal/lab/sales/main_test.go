package sales

import (
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()       // what go-redis would print it returns as well
	debug.SetGCPercent(400) // the lab makes much garbage and keeps little
	// A client of a killed process tries to dial again, and notices only a second later that it
	// is closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}
