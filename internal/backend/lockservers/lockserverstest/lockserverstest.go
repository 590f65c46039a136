// Package lockserverstest has the servers that only some locks need, for tests.
package lockserverstest

import (
	"testing"

	"oversell/internal/backend/lockservers"
	"oversell/internal/locks"
)

// Embedded serves, as long as the test runs, those that can be had with nothing
// but Go: the nodes of Redlock and etcd.
func Embedded(t testing.TB) lockservers.Addresses {
	t.Helper()
	s, err := lockservers.Serve(t.Context(), lockservers.Specs{Redlock: "embedded", Etcd: "embedded"}, locks.NeedsNodes, locks.NeedsEtcd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Addresses
}
