package lab

import (
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	goleak.VerifyTestMain(m)
}

// column returns one of the columns.
func column(t *testing.T, name string) Column {
	t.Helper()
	c, err := FindColumns(append(Columns(), Yours()), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}
