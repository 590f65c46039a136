package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"oversell/internal/bench"
	"oversell/internal/figures"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// shopWith returns the URL of a shop that answers each request with the next audit, and repeats the
// last one.
func shopWith(t *testing.T, audits ...stock.Audit) string {
	t.Helper()
	var asked int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/audit/hot" {
			http.NotFound(w, r)
			return
		}
		a := audits[min(asked, len(audits)-1)]
		asked++
		if err := json.NewEncoder(w).Encode(web.Audit{Audit: a}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// sold returns the audit of a sale of ten units with n orders in the database.
func sold(n int64) stock.Audit {
	return stock.Audit{SKU: "hot", SaleID: "sale",
		Stock: figures.Stock{Initial: 10, Remaining: 10 - n, Sold: n, Orders: n}}
}

// Each kind of disagreement is reported as exactly one problem.
func TestAuditProblems(t *testing.T) {
	with := func(change func(a *stock.Audit)) stock.Audit {
		a := sold(4)
		change(&a)
		return a
	}
	for name, test := range map[string]struct {
		audit stock.Audit
		told  string
		want  string // the beginning of the only problem
	}{
		"nothing": {sold(4), "", ""},
		"told":    {sold(4), `{"requests":9,"status_codes":{"200":4,"409":5}}`, ""},
		"oversold": {with(func(a *stock.Audit) {
			a.Oversold, a.Sold, a.Orders, a.Remaining = 2, 12, 12,
				-2
		}), "", "oversold: 2 "},
		"a lost update":     {with(func(a *stock.Audit) { a.LostUpdates, a.Remaining = 3, 9 }), "", "lost updates: "},
		"stranded":          {with(func(a *stock.Audit) { a.Stranded, a.Remaining = 1, 5 }), "", "stranded: 1 "},
		"duplicates":        {with(func(a *stock.Audit) { a.Duplicates = 1 }), "", "duplicates: 1 "},
		"foreign":           {with(func(a *stock.Audit) { a.Foreign = 1 }), "", "foreign: 1 "},
		"accepted and lost": {with(func(a *stock.Audit) { a.AcceptedLost = 1 }), "", "accepted and lost: 1 "},
		"an unknown figure": {with(func(a *stock.Audit) { a.Remaining = 7 }), "", "the figures add up to 11 "},
		"never settled": {with(func(a *stock.Audit) { a.InFlight, a.Remaining = 1, 5 }), "",
			"the sale has not settled "},
		"never written": {with(func(a *stock.Audit) { a.InFlight, a.Unwritten, a.Remaining = 2, 1, 4 }), "",
			"the sale has not settled after 0s: 2 units are in flight, 1 of them "},
		"a hold": {with(func(a *stock.Audit) { a.Held, a.Remaining = 1, 5 }), "", ""},
		"stock without order": {with(func(a *stock.Audit) { a.LostUpdates, a.Stranded, a.Remaining = -1, 1, 5 }), "",
			"stranded: 1 "},
		"no reply": {sold(4), `{"requests":9,"status_codes":{"200":4,"409":4,"0":1}}`,
			"dropped: 1 of 9 requests were not sent, or got no reply"},
		"never sent": {sold(4), `{"requests":9,"status_codes":{"200":4,"409":4},"dropped":1}`,
			"dropped: 1 of 9 requests were not sent, or got no reply"},
		"no status": {sold(4), `{"requests":9,"status_codes":{"200":4,"409":3},"cut_off":1}`,
			"unaccounted: 1 of 9 "},
		"theirs, no status":   {sold(4), `{"requests":9,"status_codes":{"200":3,"409":5}}`, "unaccounted: 1 of 9 "},
		"all accounted for":   {sold(4), `{"requests":9,"status_codes":{"200":4,"409":3},"cut_off":2}`, ""},
		"an odd status":       {sold(4), `{"requests":9,"status_codes":{"200":3,"409":5,"600":1}}`, ""},
		"an order is missing": {sold(4), `{"requests":9,"status_codes":{"200":5,"409":4}}`, "missing: "},
		"nobody was told":     {sold(4), `{"requests":9,"status_codes":{"200":3,"409":6}}`, "unreported: "},
		"it may be theirs":    {sold(4), `{"requests":9,"status_codes":{"200":3,"409":5},"cut_off":1}`, ""},
		"after a 503":         {sold(4), `{"requests":9,"status_codes":{"200":3,"409":5,"503":1}}`, ""},
		"asked twice":         {sold(4), `{"requests":9,"status_codes":{"200":6,"409":3},"sold":4}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := bench.AuditConfig{URL: shopWith(t, test.audit), SKU: "hot"}
			if test.told != "" {
				var err error
				cfg.Told, err = bench.ReadTold(strings.NewReader(test.told))
				must(t, err)
			}
			found, err := bench.Audit(t.Context(), cfg)
			must(t, err)
			if test.want == "" && len(found.Problems) > 0 || test.want != "" &&
				(len(found.Problems) != 1 || !strings.HasPrefix(found.Problems[0], test.want)) {
				t.Errorf("problems %q, want one that begins with %q", found.Problems, test.want)
			}
		})
	}
}

// Audit waits until no unit is in flight and all accepted orders are written.
func TestAuditWaitsUntilTheSaleHasSettled(t *testing.T) {
	busy := sold(3)
	busy.InFlight, busy.Remaining = 1, 6
	accepted := sold(3)
	accepted.InFlight, accepted.Unwritten, accepted.Remaining = 1, 1, 6
	cfg := bench.AuditConfig{URL: shopWith(t, busy, accepted, sold(4)), SKU: "hot", Wait: time.Minute}
	found, err := bench.Audit(t.Context(), cfg)
	if err != nil || len(found.Problems) > 0 || found.Audit.Orders != 4 {
		t.Errorf("%+v, %v; want the four orders of the third audit", found, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	cfg.URL = shopWith(t, busy)
	if _, err := bench.Audit(ctx, cfg); !errors.Is(err, context.Canceled) && !errors.Is(err, gone) {
		t.Errorf("an ended context: %v", err)
	}
}

// Audit repeats a request that a busy shop refused, for as long as a sale may take to settle.
func TestAuditAsksABusyShopAgain(t *testing.T) {
	var asked int
	free := 3
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < free {
			http.Error(w, "no connection is free", http.StatusServiceUnavailable)
			return
		}
		if err := json.NewEncoder(w).Encode(web.Audit{Audit: sold(4)}); err != nil {
			t.Error(err)
		}
	}))
	defer busy.Close()
	found, err := bench.Audit(t.Context(), bench.AuditConfig{URL: busy.URL, SKU: "hot", Wait: time.Minute})
	if err != nil || found.Audit.Orders != 4 || asked != free {
		t.Errorf("after %d audits: %+v, %v; want the four orders of the third", asked, found, err)
	}
	free = 1 << 20
	_, err = bench.Audit(t.Context(), bench.AuditConfig{URL: busy.URL, SKU: "hot", Wait: 20 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no connection is free") {
		t.Errorf("of a shop that stays busy: %v; want what it says", err)
	}
}

// Wrong addresses, items and reports are refused with an error that names the reason.
func TestWhatCannotBeAudited(t *testing.T) {
	url := shopWith(t, sold(1))
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer other.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, "<html>")
	}))
	defer page.Close()
	for _, test := range []struct {
		url, sku string
		config   bool
		says     string
	}{
		{"127.0.0.1:8080", "hot", true, "does not begin with http://"},
		{"localhost:8080", "hot", true, "does not begin with http://"},
		{"localhost", "hot", true, "does not begin with http://"},
		{"ftp://localhost", "hot", true, "not the URL of a shop"},
		{"http://me:secret@localhost", "hot", true, "not the URL of a shop"},
		{"me:secret@localhost", "hot", true, "does not begin with http://"},
		{"http://me:secret@local host", "hot", true, "cannot be parsed"},
		{url + "/api/audit/hot", "hot", true, "has no path"},
		{url + "?x=1", "hot", true, "not the URL of a shop"},
		{url, "a/b", true, ""},
		{url, "cold", false, "404"},
		{other.URL, "hot", false, "does not answer like a shop: its reply names no sale"},
		{page.URL, "hot", false, "does not answer like a shop: invalid character"},
		{"http://127.0.0.1:1", "hot", false, "refused"},
	} {
		_, err := bench.Audit(t.Context(), bench.AuditConfig{URL: test.url, SKU: test.sku})
		if err == nil || strings.HasPrefix(err.Error(), "invalid config: ") != test.config ||
			!strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s of %s: %v; want an error that says %q", test.sku, test.url, err, test.says)
		}
	}
}

// A report that contradicts itself is refused, and the error names the contradiction.
func TestReadToldRefuses(t *testing.T) {
	for text, says := range map[string]string{
		`{"requests":9}`:                                        "no status_codes",
		`{"requests":0,"status_codes":{}}`:                      "requests 0",
		`{"requests":9,"status_codes":{},"dropped":-1}`:         "dropped -1",
		`{"requests":9,"status_codes":{"200":-1}}`:              "-1 times",
		`{"requests":9,"status_codes":{"0200":1}}`:              `the status "0200"`,
		`{"requests":9,"status_codes":{"1000":1}}`:              `the status "1000"`,
		`{"requests":9,"status_codes":{"200":5,"409":5}}`:       "10 requests have a status or were dropped, of 9",
		`{"requests":9,"status_codes":{"200":9},"dropped":1}`:   "10 requests have a status or were dropped, of 9",
		`{"requests":9,"status_codes":{"200":4},"sold":5}`:      "5 orders were confirmed by 4 replies",
		`{"requests":9,"status_codes":{"409":9},"sold":-1}`:     "-1 orders",
		`{"requests":9,"status_codes":{"200":9}} {}`:            "something follows",
		`{"requests":9,"status_codes":{"200":9}},`:              "something follows",
		`{"requests":9,"status_codes":{"200":9}} # from vegeta`: "something follows",
		`{"requests":9,"status_codes":{"200":9}`:                "reading what buyers were told",
	} {
		if found, err := bench.ReadTold(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s was read as %+v, %v; want an error that says %q", text, found, err, says)
		}
	}
	if _, err := bench.ReadTold(strings.NewReader("{\"requests\":9,\"status_codes\":{\"200\":9}}\n\n")); err != nil {
		t.Errorf("with empty lines at its end: %v", err)
	}
}
