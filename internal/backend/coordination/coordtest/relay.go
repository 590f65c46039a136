package coordtest

import (
	"testing"

	"oversell/internal/netfault"
)

// NewRelay puts a relay in front of target for the length of the test, which
// can disturb the network between them.
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
