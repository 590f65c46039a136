package backendtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// Database creates an empty database of the spec "embedded" or "local" for the duration
// of the test. It returns the URL to dial, which is also a value for -db.
//
// The tests of a package share one server for their "local" databases, which saves half a second per
// test. TestMain must call Main, which stops the server.
func Database(t testing.TB, spec string) string {
	t.Helper()
	if spec == "local" {
		return sharedDatabase(t)
	}
	s, err := backend.ServeDatabase(starting(t), spec)
	Must(t, err)
	CloseAfter(t, s)
	return s.URL
}

// DialDatabase connects to a URL for the duration of the test.
func DialDatabase(t testing.TB, url string) *gorm.DB {
	t.Helper()
	db, err := backend.DialDatabase(t.Context(), url)
	Must(t, err)
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			_ = pool.Close() // a test may have closed it already
		}
	})
	return db
}

// Main runs a package's tests. Then it stops their database server, calls the functions in ends, and
// fails if a goroutine is left behind. Call it in TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }
func Main(m *testing.M, ends ...func() error) (code int) {
	code = run(m)
	for _, end := range append(ends, noGoroutineIsLeft) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	return code
}

// noGoroutineIsLeft ignores a client that could not dial: it tries again, and notices only a second
// later that it is closed.
func noGoroutineIsLeft() error {
	return goleak.Find(goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func run(m *testing.M) int {
	logging.Disable()                  // go-redis returns the errors that it would print
	debug.SetGCPercent(400)            // tests allocate a lot and keep little
	_ = flag.Set("test.parallel", "8") // tests mostly wait; the flag -parallel has priority
	defer func() {
		if shared.server != nil {
			_ = shared.server.Close() // if this fails, the temporary folder is left to the system
		}
	}()
	return m.Run()
}

// shared is the database server of all tests of a package. It is global because TestMain and the tests
// cannot share state in any other way.
var shared struct {
	sync.Mutex
	server    *local.Database // nil before the first test that needs it
	databases int             // created so far
}

// sharedDatabase creates a database on the shared server.
func sharedDatabase(t testing.TB) string {
	t.Helper()
	System(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		server, err := local.StartDatabase(starting(t))
		Must(t, err)
		shared.server = server
	}
	shared.databases++
	dsn, drop, err := shared.server.Offer(starting(t), fmt.Sprintf("test_%d", shared.databases))
	Must(t, err)
	t.Cleanup(func() { _ = drop(context.WithoutCancel(t.Context())) }) // the server may already be stopped
	return dsn
}

// RestartableDatabase runs a private database server for the duration of the test, which can kill,
// pause and restart it.
func RestartableDatabase(t testing.TB) *local.Database {
	t.Helper()
	System(t)
	s, err := local.StartDatabase(starting(t))
	Must(t, err)
	CloseAfter(t, s)
	return s
}
