package search

import (
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()       // what go-redis would print it returns as well
	debug.SetGCPercent(400) // the lab makes much garbage and keeps little
	goleak.VerifyTestMain(m)
}
