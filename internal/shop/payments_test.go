package shop

import (
	"strings"
	"testing"
)

// The name of a ledger is the same for spellings of one address, and has no secret. A database
// would cut off a longer one.
func TestLedgerNameOf(t *testing.T) {
	for _, address := range []string{"http://pay.example:9000/v1", "http://pay.example:9000/v1/", "http://user:secret@PAY.example:9000/v1"} {
		if got, err := ledgerNameOf(address); got != "http://pay.example:9000/v1" || err != nil {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
	if got, err := ledgerNameOf("http://pay.example/" + strings.Repeat("a", maxLedgerName)); err == nil {
		t.Errorf("a long address gives %q", got)
	}
}
