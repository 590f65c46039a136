package chaos

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
)

func TestMain(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	os.Exit(backendtest.Main(m))
}
