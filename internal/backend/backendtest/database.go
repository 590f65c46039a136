package backendtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// Database makes an empty database of the spec "embedded" or "local" for the
// length of the test and returns the URL to dial, which is also a value for
// -db.
//
// A "local" one is a database of its own on a server that tests which overlap
// share; with Main in the package's TestMain, all of them do.
func Database(t testing.TB, spec string) string {
	t.Helper()
	if spec == "local" {
		return sharedDatabase(t)
	}
	s, err := backend.ServeDatabase(starting(t), spec)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

// DialDatabase connects to a URL for the length of the test.
func DialDatabase(t testing.TB, url string) *gorm.DB {
	t.Helper()
	db, err := backend.DialDatabase(t.Context(), url)
	must(t, err)
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			_ = pool.Close() // a test may have closed it already
		}
	})
	return db
}

// Main runs a package's tests and keeps the one "local" database server they
// use from the first of them to the last, which saves half a second a test.
// It is for TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }
func Main(m *testing.M) int {
	shared.keep(true)
	defer shared.keep(false)
	return m.Run()
}

// sharedDatabase makes a database on the shared server.
func sharedDatabase(t testing.TB) string {
	t.Helper()
	s, err := shared.acquire(starting(t))
	must(t, err)
	t.Cleanup(shared.release)

	dsn, drop, err := s.Offer(starting(t), fmt.Sprintf("test_%d", databases.Add(1)))
	must(t, err)
	t.Cleanup(func() { _ = drop(context.WithoutCancel(t.Context())) }) // the server may be gone
	return dsn
}

// shared and databases are the state of one test binary: TestMain and the
// tests have nothing else in common to keep it in.
var (
	shared    sharedServer
	databases atomic.Int64
)

// sharedServer is a database server that lives while somebody uses it.
type sharedServer struct {
	mu     sync.Mutex
	users  int
	kept   bool
	server *local.Database
}

// acquire starts the server for its first user.
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

// keep says whether the server stays when it has no user.
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
	_ = s.server.Close() // the temporary folder is the system's to clean then
	s.server = nil
}

// LocalDatabase is a private database server that a test may kill, stop and
// start again.
type LocalDatabase struct {
	*local.Server

	// URL is what backend.DialDatabase and -db take; AdminURL is that of a user
	// who may do more, see local.Database.
	URL, AdminURL string
}

// RestartableDatabase runs a private database server for the length of the
// test.
func RestartableDatabase(t testing.TB) *LocalDatabase {
	t.Helper()
	s, err := local.StartDatabase(starting(t))
	must(t, err)
	closeAfter(t, s.Server)
	return &LocalDatabase{Server: s.Server, URL: s.DSN(), AdminURL: s.AdminDSN()}
}
