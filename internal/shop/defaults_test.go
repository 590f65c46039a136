package shop

import "testing"

// Those who wait when a holder is killed are served after its lease, and not sent
// away before.
func TestDefaultTTLIsShorterThanTheWait(t *testing.T) {
	if DefaultTTL >= DefaultWait {
		t.Errorf("the ttl is %v, and the wait is %v", DefaultTTL, DefaultWait)
	}
}
