package search

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	goleak.VerifyTestMain(m)
}
