package web_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"oversell/internal/message"
	"oversell/internal/page/texts"
	"oversell/internal/stock"
	"oversell/internal/web"
	"oversell/internal/web/problem"
)

// A request with a parameter that is invalid, unknown or given twice is refused and sells nothing,
// because the parameter may have been meant to name the strategy.
func TestQueriesThatAreNotUnderstoodAreRefused(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	deduct, item := "/api/items/"+sku+"/deduct", "/api/items/"+sku
	for _, tt := range []struct{ method, path, query, detail string }{
		{"POST", deduct, "strategy=nope;x", "semicolon"},
		{"POST", deduct, "stratgy=watch", "allowed here: strategy"},
		{"GET", item, "fresh=1", "allowed here: strategy, second_look"},
		{"GET", "/api/categories", "strategy=nope;x", "semicolon"},
		{"GET", "/api/audit/" + sku, "strategy=none", "no parameter is allowed here"},
		{"GET", "/api/strategies", "x", "no parameter is allowed here"},
		{"PUT", item, "stock=5", "no parameter is allowed here"},
		{"DELETE", item, "sure=yes", "no parameter is allowed here"},
		{"PUT", "/api/strategy", "name=none", "no parameter is allowed here"},
	} {
		r := httptest.NewRequest(tt.method, "/", strings.NewReader(`{"quantity":1}`))
		r.URL.Path, r.URL.RawQuery = tt.path, tt.query
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if !strings.Contains(w.Body.String(), tt.detail) {
			t.Errorf("%s %s?%s: %s does not say %q", tt.method, tt.path, tt.query, w.Body, tt.detail)
		}
		wantProblem(t, w, http.StatusBadRequest, "invalid")
	}
	for _, query := range []string{"", "?", "?strategy=watch", "?strategy=w%61tch"} {
		read(t, s.ask("POST", deduct+query, `{"quantity":1}`), new(sold))
	}
	audit := s.audit(t, sku)
	if audit.Sold != 4 || audit.Initial != 10 {
		t.Errorf("the sale is %+v, want 4 sold of 10", audit.Stock)
	}
}

// A request with an empty idempotency key, or with several, is refused and sells nothing, because a
// client that sends a key relies on it.
func TestKeysThatAreNotOneAreRefused(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	for name, keys := range map[string][]string{
		"empty": {""}, "two": {"a", "b"}, "the same twice": {"a", "a"}, "one empty": {"", "a"},
	} {
		r := httptest.NewRequest("POST", "/api/items/"+sku+"/deduct", strings.NewReader(`{"quantity":1}`))
		r.Header["Idempotency-Key"] = keys
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		t.Run(name, func(t *testing.T) { wantProblem(t, w, http.StatusBadRequest, "invalid") })
	}
	audit := s.audit(t, sku)
	if audit.Sold != 0 {
		t.Errorf("sold %d", audit.Sold)
	}
}

// HEAD returns the header of the reply to a GET, and no body, for every path with GET.
func TestHeadIsGetWithoutABody(t *testing.T) {
	s := embeddedSite(t, func(wc *web.Config, _ *stock.Config) {
		wc.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, strings.Repeat("long ", 5000)) // more than the server buffers
		})
	})
	sku := s.put(t, 10)
	server := httptest.NewServer(s.Handler)
	defer server.Close()
	for path, status := range map[string]int{
		"/healthz": 200, "/metrics": 200, "/": 200, "/api/items/" + sku: 200, "/api/categories": 200,
		"/api/strategies": 200, "/api/audit/" + sku: 200, "/api/items/nothing": 404, "/api/audit/nothing": 404,
		"/api/nothing":             200, // served by the page
		"/api/items/" + sku + "?x": 400, "/api/items/" + sku + "/deduct": 405,
	} {
		ask := func(method string) (*http.Response, int64) {
			res := raw(t, server.Listener.Addr().String(), method, path)
			text, err := io.ReadAll(res.Body)
			must(t, err)
			return res, int64(len(text))
		}
		get, length := ask("GET")
		head, none := ask("HEAD")
		if head.StatusCode != status || get.StatusCode != status || none != 0 {
			t.Errorf("HEAD %s: %s, %d bytes; GET: %s; want %d", path, head.Status, none, get.Status, status)
		}
		if head.Header.Get("Content-Type") != get.Header.Get("Content-Type") {
			t.Errorf("HEAD %s has the headers %v, and GET %v", path, head.Header, get.Header)
		}
		// The counts in /metrics and in the audit change between two requests.
		steady := path != "/metrics" && !strings.HasPrefix(path, "/api/audit")
		if head.ContentLength <= 0 || steady && head.ContentLength != length {
			t.Errorf("HEAD %s says %d bytes, and GET sends %d", path, head.ContentLength, length)
		}
	}
	if w := s.ask("POST", "/healthz", ""); w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("allowed at /healthz: %q", w.Header().Get("Allow"))
	}
}

// raw sends a request on its own connection, and checks that nothing follows the reply.
func raw(t *testing.T, addr, method, path string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	must(t, err)
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, path)
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	must(t, err)
	text, err := io.ReadAll(res.Body)
	must(t, err)
	res.Body = io.NopCloser(strings.NewReader(string(text)))
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("%s %s: %q follows the reply, %v", method, path, rest, err)
	}
	return res
}

// A PUT with a strategy that cannot sell the item is refused before the sale begins, and the reply
// names an alternative. Short names of strategies are expanded as in a query.
func TestAnItemIsNotPutOnSaleWithAStrategyThatCannotSellIt(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	path := "/api/items/" + sku
	for body, want := range map[string]struct{ code, says string }{
		`{"stock":7,"limit":2,"strategy":"v6_watchdog"}`:          {"limit_unchecked", "lua_stream"},
		`{"stock":7,"limit":2,"strategy":"v6"}`:                   {"limit_unchecked", "lua_stream"},
		`{"stock":7,"keeper":"database","strategy":"lua_atomic"}`: {"wrong_keeper", "with keeper redis"},
		`{"stock":7,"keeper":"database","strategy":"lua_stream"}`: {"wrong_keeper", "with keeper redis"},
		`{"stock":7,"keeper":"database","strategy":"watch"}`:      {"wrong_keeper", "with keeper redis"},
		`{"stock":7,"strategy":"sql_version"}`:                    {"wrong_keeper", "with keeper database"},
		`{"stock":7,"strategy":"sql_conditional"}`:                {"wrong_keeper", "with keeper database"},
		`{"stock":7,"keeper":"holds","strategy":"v6_watchdog"}`:   {"wrong_keeper", "sold by holds"},
		`{"stock":7,"keeper":"holds","strategy":"h2"}`:            {"wrong_keeper", "names the stage"},
		`{"stock":-1,"strategy":"sql_version"}`:                   {"invalid", "stock is -1"},
	} {
		w := s.admin("PUT", path, body)
		if !strings.Contains(w.Body.String(), want.says) {
			t.Errorf("%s: %s does not say %q", body, w.Body, want.says)
		}
		wantProblem(t, w, http.StatusBadRequest, want.code)
	}
	if audit := s.audit(t, sku); audit.Initial != 10 {
		t.Errorf("the sale began with %d units, and should be the one before", audit.Initial)
	}
	for body, want := range map[string]stock.Backend{
		`{"stock":7,"strategy":"v6"}`:                              stock.InRedis,
		`{"stock":7,"strategy":""}`:                                stock.InRedis,
		`{"stock":7,"limit":2,"strategy":"lua_stream"}`:            stock.InRedis,
		`{"stock":7,"limit":2}`:                                    stock.InRedis,
		`{"stock":7,"keeper":"database"}`:                          stock.InDatabase,
		`{"stock":7,"keeper":"database","strategy":"sql_version"}`: stock.InDatabase,
		`{"stock":7,"keeper":"database","strategy":"v8"}`:          stock.InDatabase,
	} {
		var item stock.Item
		if read(t, s.admin("PUT", path, body), &item); item.Keeper != want {
			t.Errorf("%s: the keeper is %s; want %s", body, item.Keeper, want)
		}
	}
	wantProblem(t, s.admin("PUT", path, `{"stock":7,"strategy":"v"}`), http.StatusNotFound, "unknown_strategy")
}

// Requests that need no body are refused if they have one, which may have been meant for another
// request.
func TestBodiesThatNothingReadsAreRefused(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 1)
	for _, r := range [][2]string{
		{"POST", "/api/audit/" + sku + "/repair"},
		{"POST", "/api/items/" + sku + "/dead/retry"},
		{"DELETE", "/api/items/" + sku},
	} {
		for _, body := range []string{"garbage", "{}", " "} {
			wantProblem(t, s.admin(r[0], r[1], body), http.StatusBadRequest, "invalid")
		}
		if w := s.admin(r[0], r[1], ""); w.Code/100 != 2 {
			t.Errorf("%s %s without a body: %d %s", r[0], r[1], w.Code, w.Body)
		}
	}
}

// The page shows the details of these refusals, also in Chinese.
func TestRefusalsAreToldInChinese(t *testing.T) {
	s := embeddedSite(t, func(wc *web.Config, _ *stock.Config) {
		wc.OneEach = true
		wc.Absent = map[string]message.Message{
			"etcd": message.Newf("it needs -%s, and the shop was started without it", "etcd"),
		}
	})
	sku := s.put(t, 10)
	item, limited := "/api/items/"+sku, "/api/items/limited"
	read(t, s.admin("PUT", limited, `{"stock":7,"limit":2}`), new(stock.Item))
	for _, tt := range []struct{ method, path, body string }{
		{"PUT", item, `{}`}, {"PUT", item, `{"stock":-1}`}, {"PUT", item, `{"stock":1,"limit":-1}`},
		{"PUT", item, `{"stock":1,"keeper":"moon"}`}, {"PUT", item, `{"stock":1,"hold_seconds":5}`},
		{"PUT", item, `{"stock":1,"keeper":"holds","hold_seconds":-5}`},
		{"PUT", item, `{"stock":1,"keeper":"database","limit":1}`},
		{"PUT", item, `{"stock":1,"category":"-"}`}, {"PUT", "/api/items/-", `{"stock":1}`},
		{"PUT", item, `{"stock":1,"name":"` + strings.Repeat("n", 201) + `"}`},
		{"PUT", item, `{"stock":"many"}`}, {"PUT", item, `{"stock":1,"name":2}`}, {"PUT", item, `{"moon":1}`},
		{"PUT", item, `{"stock":1,"stock":1}`}, {"PUT", item, `{"stock":1} {}`}, {"PUT", item, `7`}, {"PUT", item, ``},
		{"PUT", item, `{"stock":1,"name":"` + strings.Repeat("n", 5000) + `"}`},
		{"POST", item + "/deduct", `{}`}, {"POST", item + "/deduct", `{"quantity":0}`},
		{"POST", item + "/deduct?strategy=moon", `{"quantity":1}`},
		{"POST", item + "/deduct?strategy=etcd", `{"quantity":1}`},
		{"POST", item + "/deduct?moon=1", `{"quantity":1}`}, {"POST", item + "/deduct?strategy", `{"quantity":1}`},
		{"POST", item + "/deduct?strategy=none&strategy=none", `{"quantity":1}`},
		{"POST", "/api/items/nobody/deduct", `{"quantity":1}`}, {"GET", "/api/items/nobody", ``},
		{"POST", limited + "/deduct", `{"quantity":1}`},
		{"POST", limited + "/deduct?strategy=lua_stream", `{"quantity":1}`},
		{"POST", limited + "/deduct?strategy=lua_stream", `{"quantity":1,"buyer":"a b"}`},
		{"GET", item + "?moon=1", ``}, {"GET", "/api/audit/" + sku + "?moon=1", ``}, {"DELETE", item, `{}`},
		{"GET", item + "/deduct", ``}, {"GET", "/api/items", ``},
	} {
		w := s.admin(tt.method, tt.path, tt.body)
		var p problem.Problem
		must(t, json.Unmarshal(w.Body.Bytes(), &p))
		chinese := texts.Listen(texts.In)
		if p.Message.IsZero() {
			p.Message = message.Text(p.Detail)
		}
		said := p.Message.Translate(chinese.Say)
		if w.Code < 400 || len(chinese.Untold) > 0 {
			t.Errorf("%s %s %.60s: %d %s, told as %q; not translated: %q", tt.method, tt.path, tt.body,
				w.Code, p.Detail, said, chinese.Untold)
		}
	}
	w := s.ask("POST", item+"/deduct", `{"quantity":2}`)
	wantProblem(t, w, http.StatusForbidden, "one_each")
}
