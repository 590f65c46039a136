package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"oversell/internal/bench"
)

// Audit exits with 0 if the books agree, 1 if they do not, and 2 if they cannot be checked.
func TestAuditExitCodes(t *testing.T) {
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reply := `{"sku":"hot","sale_id":"s","initial":10,"remaining":7,"sold":3,"orders":3}`
		if strings.HasSuffix(r.URL.Path, "/bad") {
			reply = `{"sku":"bad","sale_id":"s","initial":1,"remaining":-2,"sold":3,"orders":3,"oversold":2}`
		}
		if strings.HasSuffix(r.URL.Path, "/busy") {
			reply = `{"sku":"busy","sale_id":"s","initial":10,"remaining":5,"sold":3,"orders":3,` +
				`"in_flight":2,"unwritten":1}`
		}
		_, _ = w.Write([]byte(reply))
	}))
	defer shop.Close()
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "told.json")
		must(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	for _, test := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{shop.URL}, exitExpected, "the books agree: the stock and the orders add up\n"},
		{[]string{"-wait", "0s", "-sku", "busy", shop.URL}, exitUnexpected, "    5     3       3       2         0"},
		{[]string{"-sku", "bad", shop.URL}, exitUnexpected, "oversold: 2 units"},
		{[]string{"-told", file(`{"requests":3,"status_codes":{"200":3}}`), shop.URL}, exitExpected,
			"as many orders as buyers were told of\n"},
		{[]string{"-told", file(`{"requests":3,"status_codes":{"200":2,"500":1}}`), shop.URL}, exitExpected,
			"there are 3 orders, buyers were told of 2, and 1 more"},
		{[]string{"-told", file(`{}`), shop.URL}, exitFailed, "status_codes"},
		{[]string{"-told", "nowhere.json", shop.URL}, exitFailed, "nowhere.json"},
		{[]string{}, exitFailed, "0 URLs given"},
		{[]string{shop.URL, "-told", "told.json"}, exitFailed, "flags come before the URL"},
		{[]string{shop.URL, shop.URL}, exitFailed, "2 URLs given"},
		{[]string{"localhost:8080"}, exitFailed, "does not begin with http://"},
		{[]string{"-wait", "2h", shop.URL}, exitFailed, "0s to 1h"},
		{[]string{"-nonsense", shop.URL}, exitFailed, "-nonsense"},
		{[]string{"-h"}, exitExpected, "-told"},
	} {
		got := try(t, append([]string{auditArg}, test.args...)...)
		if said := got.stdout + got.stderr; got.code != test.code || !strings.Contains(said, test.says) {
			t.Errorf("%v: exit code %d, want %d, and %q in:\n%s", test.args, got.code, test.code, test.says, said)
		}
	}
	got := try(t, auditArg, "-json", "-sku", "bad", shop.URL)
	var found bench.AuditResult
	if err := json.Unmarshal([]byte(got.stdout), &found); err != nil || len(found.Problems) != 1 ||
		found.Audit.Oversold != 2 {
		t.Errorf("-json: %+v, %v", found, err)
	}
}
