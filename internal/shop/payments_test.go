package shop

import (
	"strings"
	"testing"
)

// The name of a ledger is the same for different spellings of an address, and contains no secret.
// Names that are too long are refused, because a database would truncate them.
func TestLedgerNameOf(t *testing.T) {
	for _, address := range []string{
		"http://pay.example:9000/v1", "http://pay.example:9000/v1/", "http://user:secret@PAY.example:9000/v1",
	} {
		if got, err := ledgerNameOf(address); got != "http://pay.example:9000/v1" || err != nil {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
	for _, name := range []string{"acme", "127.0.0.1:9000", "100% pay", "/", "Pay/"} {
		if got, err := ledgerNameOf(name); got != name || err != nil {
			t.Errorf("name %q: %q, %v", name, got, err)
		}
	}
	long := "http://pay.example/" + strings.Repeat("a", maxLedgerName)
	for _, name := range []string{"", " ", "process:1", "Process:1", long} {
		if got, err := ledgerNameOf(name); err == nil {
			t.Errorf("name %q gives %q", name, got)
		}
	}
}
