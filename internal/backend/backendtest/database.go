package backendtest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
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
// Tests that run at the same time share one server for their "local" databases. If the package's
// TestMain calls Main, all tests of the package share one server.
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

// Main runs a package's tests. It keeps their shared "local" database server running until the last
// test, which saves half a second per test. Then it calls the functions in ends, and fails if a
// goroutine is left behind. Call it in TestMain:
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
	shared.keep(true)
	defer shared.keep(false)
	return m.Run()
}

// sharedDatabase creates a database on the shared server.
func sharedDatabase(t testing.TB) string {
	t.Helper()
	System(t)
	s, err := shared.acquire(starting(t))
	Must(t, err)
	t.Cleanup(shared.release)

	dsn, drop, err := s.Offer(starting(t), fmt.Sprintf("test_%d", databases.Add(1)))
	Must(t, err)
	t.Cleanup(func() { _ = drop(context.WithoutCancel(t.Context())) }) // the server may already be stopped
	return dsn
}

// shared and databases contain the state of one test binary. They are global because TestMain and
// the tests cannot share state in any other way.
var (
	shared    sharedServer
	databases atomic.Int64
)

// sharedServer is a database server that runs while at least one test uses it.
type sharedServer struct {
	mu     sync.Mutex
	users  int
	kept   bool
	server *local.Database
}

// acquire counts a user of the server, and starts the server if it is not running.
func (s *sharedServer) acquire(ctx context.Context) (*local.Database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server == nil {
		server, err := local.StartDatabase(ctx)
		if err != nil {
			return nil, err
		}
		s.server = server
	}
	s.users++
	return s.server, nil
}

func (s *sharedServer) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.stopUnused()
}

// keep decides whether the server keeps running while it has no users.
func (s *sharedServer) keep(kept bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = kept
	s.stopUnused()
}

func (s *sharedServer) stopUnused() {
	if s.users > 0 || s.kept || s.server == nil {
		return
	}
	_ = s.server.Close() // if this fails, the temporary folder is left to the system
	s.server = nil
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
