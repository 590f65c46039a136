package search

import (
	"runtime/debug"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable()       // go-redis returns the errors that it would print
	debug.SetGCPercent(400) // the lab allocates a lot and keeps little of it
	goleak.VerifyTestMain(m)
}
