package backendtest

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend"
	"oversell/internal/backend/local"
)

// Redis runs a Redis of the spec "embedded" or "local" for the duration of the test. It
// returns the URL to dial, which is also a value for -redis.
func Redis(t testing.TB, spec string) string {
	t.Helper()
	if spec != "embedded" {
		System(t)
	}
	s, err := backend.ServeRedis(starting(t), spec)
	Must(t, err)
	CloseAfter(t, s)
	return s.URL
}

// DialRedis connects to a URL for the duration of the test.
func DialRedis(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	rdb, err := backend.DialRedis(t.Context(), url, 0)
	Must(t, err)
	t.Cleanup(func() { _ = rdb.Close() }) // a test may have closed it already
	return rdb
}

// RestartableRedis runs a private redis-server for the duration of the test, which can kill, pause and
// restart it. The args are added to its command line (see local.StartRedis).
func RestartableRedis(t testing.TB, args ...string) *local.Redis {
	t.Helper()
	System(t)
	s, err := local.StartRedis(starting(t), args...)
	Must(t, err)
	CloseAfter(t, s)
	return s
}

// SecuredRedis runs a Redis with TLS, which accepts only one user, with a password, for the length
// of the test. It returns the URL of its database 2.
func SecuredRedis(t testing.TB) string {
	t.Helper()
	System(t)
	web := httptest.NewTLSServer(nil) // only for its certificate
	defer web.Close()
	pair := web.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	Must(t, err)
	dir := t.TempDir()
	file := func(kind string, der []byte) string {
		name := filepath.Join(dir, kind)
		Must(t, os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return name
	}
	port, err := local.FreePort()
	Must(t, err)
	RestartableRedis(t,
		"--tls-port", fmt.Sprint(port), "--tls-auth-clients", "no",
		"--tls-cert-file", file("CERTIFICATE", pair.Certificate[0]), "--tls-key-file", file("PRIVATE KEY", private),
		"--user", "buyer", "on", ">p@ss/secret", "~*", "&*", "+@all")
	return fmt.Sprintf("rediss://buyer:p%%40ss%%2Fsecret@127.0.0.1:%d/2?skip_verify=true", port)
}

// CloseAfter closes a server after the test.
func CloseAfter(t testing.TB, s io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Sentinels runs, for the duration of the test, a primary, its only replica (the heir), and a sentinel that
// promotes the replica in a Failover.
func Sentinels(t testing.TB) *local.Sentinels {
	t.Helper()
	set := Failovers(t)
	_, _, bystander := set.Nodes()
	bystander.Kill()
	return set
}

// Failovers runs, for the duration of the test, a set of servers that can fail over repeatedly.
func Failovers(t testing.TB) *local.Sentinels {
	t.Helper()
	System(t)
	set, err := local.StartSentinels(t.Context())
	Must(t, err)
	CloseAfter(t, set)
	return set
}
