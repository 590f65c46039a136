// Package lockserverstest starts the servers that only some locks need, for
// tests.
package lockserverstest

import (
	"testing"

	"oversell/internal/backend/lockservers"
	"oversell/internal/catalog"
)

// Embedded serves, for the length of the test, the servers that need nothing
// but Go: the nodes of Redlock and etcd.
func Embedded(t testing.TB) lockservers.Addresses {
	t.Helper()
	s, err := lockservers.Serve(t.Context(), lockservers.Specs{Redlock: "embedded", Etcd: "embedded"}, catalog.NeedsNodes, catalog.NeedsEtcd)
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
