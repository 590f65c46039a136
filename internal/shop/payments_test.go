package shop

import (
	"net"
	"net/netip"
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

// The webhooks of the embedded provider go to a name or an address that the shop answers to.
func TestWebhooksReachTheShop(t *testing.T) {
	for _, test := range []struct{ asked, listens, want string }{
		{"127.0.0.1:0", "127.0.0.1:8080", "127.0.0.1:8080"},
		{":8080", "[::]:8080", "127.0.0.1:8080"},
		{"0.0.0.0:8080", "0.0.0.0:8080", "127.0.0.1:8080"},
		{"[::1]:8080", "[::1]:8080", "[::1]:8080"},
		{"[fe80::1%eth0]:8080", "[fe80::1%eth0]:8080", "[fe80::1]:8080"},
		{"10.0.0.7:8080", "10.0.0.7:8080", "10.0.0.7:8080"},
		{"shop1:0", "10.0.0.7:8080", "shop1:8080"},
	} {
		listens := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.listens))
		if got := hostPort(test.asked, listens); got != test.want {
			t.Errorf("a shop at %s, which listens at %s: %s, want %s", test.asked, test.listens, got, test.want)
		}
	}
}
