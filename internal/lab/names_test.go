package lab

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"oversell/internal/fault"
)

func TestNames(t *testing.T) {
	start := time.Now()
	n := newNames(start)
	n.call("oversell:{x}:lock", "lock")
	const source, bare = "-- Does\n-- this. And that.\n-- KEYS[1]: a key.\nreturn 1",
		`if redis.call("get",KEYS[1]) then return redis.pcall('DEL',KEYS[1]) end`
	ticket := strings.Repeat("e", 32)
	token, other := strings.Repeat("f", 32), "a\x00b"
	later := fmt.Sprint(start.Add(3 * time.Second).UnixMilli())
	for _, tt := range []struct{ actor, cmd, want string }{
		{"A", "set|oversell:{x}:lock|" + token + "|px|3000", "SET lock token-A1 px 3000"},
		{"B", "get|oversell:{x}:lock", "GET lock"},
		{"B", "set|oversell:{x}:lock|" + other, "SET lock token-B1"},
		{"B", "eval|" + source + "|1|oversell:{x}:lock|" + token, "EVAL «Does this» lock token-A1"},
		{"B", "evalsha|" + ScriptHash(source) + "|1|oversell:{x}:lock|A/1", "EVALSHA «Does this» lock A/1"},
		{"B", "eval|" + bare + "|0", "EVAL «GET, DEL»"},
		{"B", "evalsha|0123456789abcdef|0", "EVALSHA 01234567"},
		{"C", "blpop|oversell:{x}:lock:wake:" + ticket + "|1", "BLPOP lock:wake:token-C1 1"},
		{"B", "eval|-- No end\nreturn 1|3|oversell:{x}:lock|oversell:{x}:lock:queue|" + ticket,
			"EVAL «No end» lock lock:queue token-C1"},
		{"B", "pexpireat|oversell:{x}:lock|" + later, "PEXPIREAT lock start+3000"},
		{"B", "xack|oversell:{x}:lock|group|" + later + "-1", "XACK lock group start+3000-1"},
	} {
		cmd := fault.NewCommand(strings.Split(tt.cmd, "|")...)
		if got := n.text(tt.actor, cmd); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
	if got := n.value("it is " + token); got != "it is token-A1" {
		t.Errorf("%q", got)
	}
	unknown := "5f3c2a10-0000-4000-8000-00000000abcd"
	if got, want := n.value("["+later+"-0 "+unknown+" "+unknown+"]"), "[start+3000-0 id-1 id-1]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	n.call("oversell:{x}", "all")
	if got := n.value("[oversell:{x}:lock:wake:" + ticket + " held]"); got != "[lock:wake:token-C1 held]" {
		t.Errorf("%q", got)
	}
	n.holds("A", ticket)
	n.holds("A", "1:1")
	if who, other := n.holder(ticket), n.holder("1:1"); who != "C" || other != "A" {
		t.Errorf("the ticket is taken for that of %s, and what is no token for that of %s", who, other)
	}
}
