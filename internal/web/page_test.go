package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"oversell/internal/stock"
	"oversell/internal/web"
)

// With a page, the page serves all paths outside the API, and the API replies as without a page.
func TestPageIsBesideTheAPI(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the page's "+r.URL.Path)
	})
	cfg := web.Config{Token: "sesame", Hosts: []string{"example.com"}, Logger: slog.New(slog.DiscardHandler)}
	alone := web.New(cfg).Handler()
	cfg.Page = page
	both := web.New(cfg).Handler()
	ask := func(h http.Handler, method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	for _, path := range []string{
		"/", "/page/app.js", "/api/runs", "/api/runs/1/stop", "/api", "/api/lab/a/b", "/healthz/more",
		"/api/strategies/more",
	} {
		for _, method := range []string{"GET", "POST"} {
			if code, text := ask(both, method, path); code != http.StatusOK || text != "the page's "+path {
				t.Errorf("%s %s: %d %s", method, path, code, text)
			}
			if code, _ := ask(alone, method, path); code != http.StatusNotFound {
				t.Errorf("%s %s without a page: %d", method, path, code)
			}
		}
	}
	for _, r := range [][2]string{
		{"GET", "/api/strategies"}, {"PUT", "/api/strategy"}, {"GET", "/api/strategy"}, {"PUT", "/api/items/hot"},
		{"GET", "/api/items/hot/deduct"}, {"GET", "/api/items/hot/more"}, {"POST", "/api/audit/hot"},
		{"POST", "/healthz"},
	} {
		code, text := ask(both, r[0], r[1])
		if wantCode, want := ask(alone, r[0], r[1]); code != wantCode || text != want {
			t.Errorf("%s %s: %d %s; without a page %d %s", r[0], r[1], code, text, wantCode, want)
		}
	}
}

// Another web site cannot make a visitor's browser buy or start anything.
func TestOtherSitesAreTurnedAway(t *testing.T) {
	s := embeddedSite(t, func(wc *web.Config, _ *stock.Config) {
		wc.Page = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	})
	sku := s.put(t, 10)
	const one = `{"quantity":1}`
	deduct := "/api/items/" + sku + "/deduct"
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://elsewhere.example"}} {
		for _, path := range []string{deduct, "/api/runs"} {
			wantProblem(t, s.ask("POST", path, one, headers...), http.StatusForbidden, "cross_origin")
		}
		if w := s.ask("GET", "/api/items/"+sku, "", headers...); w.Code != http.StatusOK {
			t.Errorf("to read with %v: %d", headers, w.Code)
		}
	}
	sameHost := []string{"Origin", "http://example.com"}
	for _, headers := range [][]string{nil, {"Sec-Fetch-Site", "same-origin"}, sameHost} {
		if w := s.ask("POST", deduct, one, headers...); w.Code != http.StatusOK {
			t.Errorf("with %v: %d %s", headers, w.Code, w.Body)
		}
	}
}

// A web site can point its own name at the shop's address. Therefore the shop serves only host names
// that it knows, at any address, with or without a page. If a token is set, it serves every name.
func TestOnlyKnownNamesAreServed(t *testing.T) {
	const page, noPage = true, false
	for _, tt := range []struct {
		addr, hosts, token, host string
		page, served             bool
	}{
		{"127.0.0.1:8080", "", "", "elsewhere.example:8080", page, false},
		{"localhost:8080", "", "", "127.0.0.1.elsewhere.example:8080", page, false},
		{"127.0.0.1:8080", "", "", "", page, false},
		{"127.0.0.1:8080", "", "", "127.0.0.1:9090", page, true},
		{"127.0.0.1:8080", "", "", "LocalHost", page, true},
		{"127.0.0.1:8080", "", "", "[::1]:8080", page, true},
		{"127.0.0.1:8080", "", "", "[::1]", noPage, true},
		{"127.0.0.1:8080", "", "", "elsewhere.example", noPage, false},
		{"0.0.0.0:8080", "", "", "elsewhere.example", noPage, false},
		{"0.0.0.0:8080", "", "", "0.0.0.0:8080", noPage, false},
		{":8080", "", "", "elsewhere.example", page, false},
		{"0.0.0.0:8080", "", "", "localhost:8081", page, true},
		{":8080", "", "", "127.0.0.1:8080", page, true},
		{"0.0.0.0:8080", "shop.example, 10.0.0.7", "", "Shop.Example:80", page, true},
		{"0.0.0.0:8080", "shop.example,[2001:db8::7]", "", "[2001:DB8:0::7]:8080", page, true},
		{"0.0.0.0:8080", "shop.example", "", "www.shop.example", page, false},
		{"10.0.0.7:8080", "", "", "10.0.0.7:8080", page, true},
		{"shop.example:8080", "", "", "shop.example", page, true},
		{"0.0.0.0:8080", "", "sesame", "elsewhere.example", noPage, false},
		{"0.0.0.0:8080", "shop.example", "sesame", "shop.example", page, true},
	} {
		hosts, err := web.ParseHosts(tt.hosts)
		must(t, err)
		cfg := web.Config{Addr: tt.addr, Hosts: hosts, Token: tt.token, Logger: slog.New(slog.DiscardHandler)}
		if tt.page {
			cfg.Page = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		}
		h := web.New(cfg).Handler()
		for _, path := range []string{"/", "/api/strategies", "/api/nothing"} {
			ask := func(authorization string) *httptest.ResponseRecorder {
				r := httptest.NewRequest("GET", path, nil)
				r.Host = tt.host
				r.Header.Set("Authorization", authorization)
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				return w
			}
			if w := ask("Bearer no" + tt.token); !tt.served {
				wantProblem(t, w, http.StatusForbidden, "wrong_host")
			} else if w.Code == http.StatusForbidden {
				t.Errorf("at %s, %q is asked for: %d %s", tt.addr, tt.host, w.Code, w.Body)
			}
			for _, scheme := range []string{"Bearer ", "bearer "} {
				if w := ask(scheme + tt.token); tt.token != "" && w.Code == http.StatusForbidden {
					t.Errorf("at %s, %q is asked for with the token: %d %s", tt.addr, tt.host, w.Code, w.Body)
				}
			}
		}
	}
}

func TestHostsAreNames(t *testing.T) {
	for _, text := range []string{",", "a,,b", "*", "*.example", "http://a", "a:80", "[::1]:80", "a/b", "a b", "a@b"} {
		if hosts, err := web.ParseHosts(text); err == nil {
			t.Errorf("%q: %q, and no error", text, hosts)
		}
	}
	for text, want := range map[string]int{"": 0, " ": 0, "a": 1, "a, b.example": 2, "::1,[::1],10.0.0.7": 3} {
		if hosts, err := web.ParseHosts(text); err != nil || len(hosts) != want {
			t.Errorf("%q: %q, %v; want %d names", text, hosts, err, want)
		}
	}
}
