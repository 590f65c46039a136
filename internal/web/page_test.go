package web_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"oversell/internal/stock"
	"oversell/internal/web"
)

// The page has all paths but the API's, which are as they are without it.
func TestPageIsBesideTheAPI(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "the page's "+r.URL.Path)
	})
	cfg := web.Config{Token: "sesame", Logger: slog.New(slog.DiscardHandler)}
	alone := web.New(cfg).Handler()
	cfg.Page = page
	both := web.New(cfg).Handler()
	ask := func(h http.Handler, method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Code, w.Body.String()
	}
	for _, path := range []string{"/", "/page/app.js", "/api/runs", "/api/runs/1/stop", "/api", "/api/lab/a/b", "/healthz/more", "/api/strategies/more"} {
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
		{"GET", "/api/items/hot/deduct"}, {"GET", "/api/items/hot/more"}, {"POST", "/api/audit/hot"}, {"POST", "/healthz"},
	} {
		code, text := ask(both, r[0], r[1])
		if wantCode, want := ask(alone, r[0], r[1]); code != wantCode || text != want {
			t.Errorf("%s %s: %d %s; without a page %d %s", r[0], r[1], code, text, wantCode, want)
		}
	}
}

// Another site can have a visitor's browser buy nothing and start nothing.
func TestOtherSitesAreTurnedAway(t *testing.T) {
	s := embeddedSite(t, func(wc *web.Config, _ *stock.Config) {
		wc.Page = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	})
	sku := s.put(t, 10)
	ask := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(`{"quantity":1}`))
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	deduct := "/api/items/" + sku + "/deduct"
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "http://elsewhere.example"}} {
		for _, path := range []string{deduct, "/api/runs"} {
			wantProblem(t, ask("POST", path, headers...), http.StatusForbidden, "cross_origin")
		}
		if w := ask("GET", "/api/items/"+sku, headers...); w.Code != http.StatusOK {
			t.Errorf("to read with %v: %d", headers, w.Code)
		}
	}
	for _, headers := range [][]string{nil, {"Sec-Fetch-Site", "same-origin"}, {"Origin", "http://example.com"}} { // which is the Host
		if w := ask("POST", deduct, headers...); w.Code != http.StatusOK {
			t.Errorf("with %v: %d %s", headers, w.Code, w.Body)
		}
	}
}

// A name that a site has given this machine's address is none of the shop's.
func TestShopOfOneMachineGoesByItsNames(t *testing.T) {
	for _, tt := range []struct {
		addr, token, host string
		served            bool
	}{
		{"127.0.0.1:8080", "", "elsewhere.example:8080", false},
		{"[::1]:8080", "", "elsewhere.example", false},
		{"localhost:8080", "", "127.0.0.1.elsewhere.example:8080", false},
		{"127.0.0.1:8080", "", "", false},
		{"127.0.0.1:8080", "", "127.0.0.1:9090", true},
		{"127.0.0.1:8080", "", "LocalHost", true},
		{"127.0.0.1:8080", "", "[::1]:8080", true},
		{"127.0.0.1:8080", "", "[::1]", true},
		{"127.0.0.1:8080", "sesame", "shop.example", true},
		{"0.0.0.0:8080", "", "shop.example", true},
		{":8080", "", "shop.example", true},
	} {
		h := web.New(web.Config{
			Addr: tt.addr, Token: tt.token, Logger: slog.New(slog.DiscardHandler),
			Page: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		}).Handler()
		for _, path := range []string{"/", "/api/strategies"} {
			r := httptest.NewRequest("GET", path, nil)
			r.Host = tt.host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if !tt.served {
				wantProblem(t, w, http.StatusForbidden, "wrong_host")
			} else if w.Code != http.StatusOK {
				t.Errorf("at %s, %q is asked for: %d %s", tt.addr, tt.host, w.Code, w.Body)
			}
		}
	}
}
