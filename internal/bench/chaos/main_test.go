package chaos

import (
	"os"
	"testing"

	"github.com/redis/go-redis/v9/logging"

	"oversell/internal/backend/backendtest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis also returns the errors that it would log
	os.Exit(backendtest.Main(m))
}
