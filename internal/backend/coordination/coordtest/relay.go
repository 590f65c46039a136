package coordtest

import (
	"testing"

	"oversell/internal/netfault"
)

// NewRelay puts a bad network before target for the length of the test.
func NewRelay(t testing.TB, target string) *netfault.Relay {
	t.Helper()
	r, err := netfault.Start(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}
