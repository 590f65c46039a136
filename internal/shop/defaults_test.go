package shop

import "testing"

// When a holder is killed, waiters wait until its lease has expired and are then served.
func TestDefaultTTLIsShorterThanTheWait(t *testing.T) {
	if DefaultTTL >= DefaultWait {
		t.Errorf("the ttl is %v, and the wait is %v", DefaultTTL, DefaultWait)
	}
}
