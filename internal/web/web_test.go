package web_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// sold is the reply to a deduct.
type sold struct {
	OrderID   string `json:"order_id"`
	SKU       string
	Quantity  int64
	Strategy  string
	Remaining int64
	Replayed  bool
}

func TestDeductSells(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		sku := s.put(t, 10)
		var got sold
		w := s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":3}`)
		read(t, w, &got)
		if got.OrderID == "" || got.SKU != sku || got.Quantity != 3 || got.Remaining != 7 ||
			got.Strategy != "v6_watchdog" || got.Replayed {
			t.Errorf("got %+v", got)
		}
		spans, err := web.ParseHeld(w.Header().Get(web.HeldHeader))
		if err != nil || len(spans) != 1 || !spans[0].To.After(spans[0].From) {
			t.Errorf("held %v, %v; want one span", spans, err)
		}
		read(t, s.ask("POST", "/api/items/"+sku+"/deduct?strategy=watch", `{"quantity":7}`), &got)
		if got.Strategy != "watch" || got.Remaining != 0 {
			t.Errorf("got %+v, want the last 7 under watch", got)
		}
		wantProblem(t, s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":1}`), 409, "sold_out")
	})
}

func TestSameKeyIsAnsweredWithTheFirstOrder(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 1)
	var first, second sold
	read(t, s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":1}`, "Idempotency-Key", "click"), &first)
	read(t, s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":1}`, "Idempotency-Key", "click"), &second)
	if first.OrderID != second.OrderID || first.Replayed || !second.Replayed {
		t.Errorf("got %+v, then %+v", first, second)
	}
	for _, body := range []string{`{"quantity":2}`, `{"quantity":1,"buyer":"bob"}`} {
		other := s.ask("POST", "/api/items/"+sku+"/deduct", body, "Idempotency-Key", "click")
		wantProblem(t, other, http.StatusUnprocessableEntity, "key_reused")
	}
}

func TestRestockAddsToTheSale(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	path := "/api/items/" + sku
	read(t, s.ask("POST", path+"/deduct", `{"quantity":3}`), new(sold))
	var got struct {
		SKU            string
		Added, Initial int64
		Replayed       bool
	}
	ask := func(body string) *httptest.ResponseRecorder {
		return s.admin("POST", path+"/restock", body, "Idempotency-Key", "click")
	}
	for _, want := range []bool{false, true} {
		read(t, s.ask("GET", path, ""), new(stock.Item)) // puts the old number of units into the cache
		read(t, ask(`{"add":20}`), &got)
		if got.SKU != sku || got.Added != 20 || got.Initial != 30 || got.Replayed != want {
			t.Errorf("got %+v", got)
		}
	}
	var item struct{ Initial, Remaining int64 }
	read(t, s.ask("GET", path, ""), &item)
	if item.Initial != 30 || item.Remaining != 27 {
		t.Errorf("the item is %+v, want 30 units and 27 left", item)
	}
	wantProblem(t, ask(`{"add":21}`), http.StatusUnprocessableEntity, "key_reused")
	for _, body := range []string{`{"add":0}`, `{}`, `{"add":1,"stock":1}`} {
		wantProblem(t, s.admin("POST", path+"/restock", body), http.StatusBadRequest, "invalid")
	}
}

func TestItemIsPutReadAuditedAndDeleted(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		path := "/api/items/shoe"
		wantProblem(t, s.ask("GET", path, ""), 404, "unknown_item") // caches that the item is missing
		var item struct {
			SKU, Name, Category string
			Initial, Remaining  int64
		}
		read(t, s.admin("PUT", path, `{"stock":5,"name":"Ein Schuh","category":"shoes"}`), &item)
		read(t, s.ask("GET", path, ""), &item)
		if item.Name != "Ein Schuh" || item.Category != "shoes" || item.Initial != 5 || item.Remaining != 5 {
			t.Errorf("got %+v", item)
		}
		var categories map[string][]string
		read(t, s.ask("GET", "/api/categories", ""), &categories)
		if !slices.Equal(categories["shoes"], []string{"shoe"}) {
			t.Errorf("categories %v", categories)
		}
		read(t, s.ask("POST", path+"/deduct", `{"quantity":2}`), new(sold))
		audit := s.audit(t, "shoe")
		if audit.Initial != 5 || audit.Remaining != 3 || audit.Sold != 2 || audit.Orders != 1 ||
			audit.LostUpdates != 0 {
			t.Errorf("audit %+v", audit)
		}
		// The load before the PUT, which found no item, does not count.
		if audit.CacheLoads[t.Name()] != 1 {
			t.Errorf("cache loads %v, want 1 by this instance", audit.CacheLoads)
		}
		if audit.RedisCommands == nil || *audit.RedisCommands < 5 {
			t.Errorf("commands %v, want some", audit.RedisCommands)
		}
		read(t, s.admin("PUT", path, `{"stock":8}`), &item)
		if item.Name != "" || item.Initial != 8 {
			t.Errorf("a new sale: %+v", item)
		}
		clear(categories)
		read(t, s.ask("GET", "/api/categories", ""), &categories)
		if _, found := categories[""]; found {
			t.Errorf("an item without a category: %v", categories)
		}
		wantNothing(t, s.admin("DELETE", path, ""))
		wantProblem(t, s.ask("GET", path, ""), 404, "unknown_item")
		wantProblem(t, s.ask("GET", "/api/audit/shoe", ""), 404, "unknown_item")
	})
}

// Requests with made-up SKUs leave only a limited number of keys in Redis.
func TestUnknownItemsFillNothing(t *testing.T) {
	t.Parallel()
	s := embeddedSite(t, nil)
	before := s.rdb.DBSize(t.Context()).Val()
	for i := range 1100 {
		w := s.ask("GET", fmt.Sprintf("/api/items/made-up-%d", i), "")
		if i%100 > 0 {
			continue
		}
		wantProblem(t, w, 404, "unknown_item")
		s.ask("GET", fmt.Sprintf("/api/audit/made-up-%d", i), "")
		deduct := fmt.Sprintf("/api/items/made-up-%d/deduct?strategy=v9_cohort", i)
		s.ask("POST", deduct, `{"quantity":1}`, "Idempotency-Key", "k")
	}
	if left := s.rdb.DBSize(t.Context()).Val() - before; left > 1000 {
		t.Errorf("1,100 unknown items left %d keys, want 1,000 at most", left)
	}
}

func TestDefaultStrategyIsSwitched(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 5)
	for _, strategy := range strategies().Names() {
		read(t, s.admin("PUT", "/api/strategy", fmt.Sprintf(`{"name":%q}`, strategy)), new(struct{}))
		var all struct {
			Default    string
			Strategies []web.Strategy
		}
		read(t, s.ask("GET", "/api/strategies", ""), &all)
		if all.Default != strategy || len(all.Strategies) != len(strategies()) {
			t.Errorf("the default of %d is %s, want %s", len(all.Strategies), all.Default, strategy)
		}
		// Reads succeed even while the default is a strategy that cannot guard them.
		read(t, s.ask("GET", "/api/items/"+sku, ""), new(struct{}))
	}
}

// The short name v2 means v2_ttl, both in a query and when the default is set.
func TestShortNamesOfStrategies(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 5)
	read(t, s.ask("POST", "/api/items/"+sku+"/deduct?strategy=v2", `{"quantity":1}`), new(struct{}))
	var set struct{ Default string }
	read(t, s.admin("PUT", "/api/strategy", `{"name":"v2"}`), &set)
	if set.Default != "v2_ttl" {
		t.Errorf("the default is %q, want v2_ttl", set.Default)
	}
}

// The tests of package stock check all invalid requests. This test checks one reply for each kind of refusal,
// and what can be wrong in an HTTP request.
func TestBadInput(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	deduct, one := "/api/items/"+sku+"/deduct", `{"quantity":1}`
	cold := "/api/items/" + s.put(t, 1) // an item that is not in the cache
	blanks := strings.Repeat(" ", 5000)
	for name, tt := range map[string]struct {
		method, path, body string
		status             int
		code               string
	}{
		"another keeper":        {"POST", deduct + "?strategy=sql_version", one, 400, "wrong_keeper"},
		"a text":                {"POST", deduct, `{"quantity":"1"}`, 400, "invalid"},
		"no body":               {"POST", deduct, ``, 400, "invalid"},
		"oversized":             {"POST", deduct, `{"quantity":1` + blanks + `}`, 413, "too_large"},
		"unknown strategy":      {"POST", deduct + "?strategy=v0", one, 404, "unknown_strategy"},
		"unknown item":          {"POST", "/api/items/nothing/deduct", one, 404, "unknown_item"},
		"no sku":                {"POST", "/api/items//deduct", one, 404, "no_such_path"},
		"no sku to delete":      {"DELETE", "/api/items//hot", ``, 404, "no_such_path"},
		"dots":                  {"GET", "/api/items/../items/hot", ``, 404, "no_such_path"},
		"sku with a slash":      {"GET", "/api/items/a%2Fb", ``, 400, "invalid"},
		"sku not UTF-8":         {"GET", "/api/items/%ff", ``, 400, "invalid"},
		"wrong method":          {"GET", deduct, ``, 405, "wrong_method"},
		"strange method":        {"BREW", "/api/strategies", ``, 405, "wrong_method"},
		"no such path":          {"GET", "/api/nothing", ``, 404, "no_such_path"},
		"trailing slash":        {"GET", "/api/strategies/", ``, 404, "no_such_path"},
		"unknown read strategy": {"GET", "/api/items/" + sku + "?strategy=v0", ``, 404, "unknown_strategy"},
		"watch for a read":      {"GET", cold + "?strategy=watch", ``, 400, "unknown_strategy"},
		"strange second look":   {"GET", "/api/items/" + sku + "?second_look=perhaps", ``, 400, "invalid"},
		"audit of nothing":      {"GET", "/api/audit/nothing", ``, 404, "unknown_item"},
		"orders of nothing":     {"GET", "/api/audit/nothing/orders", ``, 404, "unknown_item"},
		"repair of nothing":     {"POST", "/api/audit/nothing/repair", ``, 404, "unknown_item"},
		"letters of nothing":    {"GET", "/api/items/nothing/dead", ``, 404, "unknown_item"},
		"unknown order":         {"GET", "/api/orders/01a2051e-293a-73b9-bea3-16e802ad4c04", ``, 404, "unknown_order"},
		"long id of an order":   {"GET", "/api/orders/" + strings.Repeat("a", 37), ``, 400, "invalid"},
		"no stock":              {"PUT", "/api/items/a", `{}`, 400, "invalid"},
		"put a strange sku":     {"PUT", "/api/items/a%20b", `{"stock":1}`, 400, "invalid"},
		"no name":               {"PUT", "/api/strategy", `{}`, 400, "invalid"},
		"unknown name":          {"PUT", "/api/strategy", `{"name":"v0"}`, 404, "unknown_strategy"},
	} {
		t.Run(name, func(t *testing.T) {
			wantProblem(t, s.admin(tt.method, tt.path, tt.body), tt.status, tt.code)
		})
	}
	wantProblem(t, s.ask("POST", deduct, one, "Idempotency-Key", "a b"), 400, "invalid")
	audit := s.audit(t, sku)
	if audit.Sold != 0 || audit.Remaining != 10 {
		t.Errorf("bad input sold something: %+v", audit)
	}
}

// Changes need the token, and so do lists of orders, dead letters and holds.
func TestChangesAskForTheToken(t *testing.T) {
	s := ownSite(t)
	sku := s.put(t, 1)
	for _, change := range [][3]string{
		{"PUT", "/api/items/" + sku, `{"stock":99}`},
		{"POST", "/api/items/" + sku + "/restock", `{"add":20}`},
		{"DELETE", "/api/items/" + sku, ``},
		{"PUT", "/api/strategy", `{"name":"none"}`},
		{"POST", "/api/audit/" + sku + "/repair", ``},
		{"GET", "/api/audit/" + sku + "/orders", ``},
		{"GET", "/api/items/" + sku + "/dead", ``},
		{"POST", "/api/items/" + sku + "/dead/retry", ``},
		{"GET", "/api/audit/" + sku + "/holds", ``},
		{"PUT", "/api/holds/h3-1/fault", `{"token":1,"fault":"none"}`},
	} {
		for _, given := range []string{
			"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, token, "Bearer " + token + "x",
		} {
			w := s.ask(change[0], change[1], change[2], "Authorization", given)
			wantProblem(t, w, 401, "no_token")
			if w.Header().Get("WWW-Authenticate") == "" {
				t.Error("the reply does not say how to authenticate")
			}
		}
	}
	var item struct{ Initial int64 }
	read(t, s.ask("GET", "/api/items/"+sku, ""), &item)
	if item.Initial != 1 {
		t.Errorf("the item was changed: %+v", item)
	}
	open := embeddedSite(t, func(wc *web.Config, _ *stock.Config) { wc.Token = "" })
	read(t, open.ask("PUT", "/api/items/a", `{"stock":1}`), new(struct{}))
}

// busy makes somebody hold the lock of v1_setnx forever.
func busy(t *testing.T, s *site, sku string) {
	t.Helper()
	must(t, s.rdb.Set(t.Context(), "oversell:{"+sku+"}:lock:v1_setnx", "somebody", 0).Err())
}

// A buyer who does not get the lock in time gets a 503, and is counted in the metrics.
func TestLockThatIsNotHadInTime(t *testing.T) {
	const short = 100 * time.Millisecond
	s := embeddedSite(t, func(_ *web.Config, sc *stock.Config) { sc.Wait = short })
	sku := s.put(t, 1)
	busy(t, s, sku)
	start := time.Now()
	wantProblem(t, s.ask("POST", "/api/items/"+sku+"/deduct?strategy=v1_setnx", `{"quantity":1}`), 503, "busy")
	if waited := time.Since(start); waited < short {
		t.Errorf("gave up after %v, before the bound of %v", waited, short)
	}
	wantMetrics(t, s, `oversell_requests_total{outcome="busy",strategy="v1_setnx"} 1`)
}

func TestClosingShopTurnsEverybodyAway(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 1)
	s.stock.Close()
	wantProblem(t, s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":1}`), 503, "closing")
}

// The errors of backends are only logged, and not sent to clients, because they may name hosts and
// users.
func TestBackendThatIsAway(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 1)
	read(t, s.ask("GET", "/healthz", ""), new(struct{}))
	must(t, s.rdb.Close())
	for _, w := range []struct{ method, path, body string }{
		{"POST", "/api/items/" + sku + "/deduct", `{"quantity":1}`},
		{"GET", "/api/items/" + sku, ""},
		{"GET", "/api/audit/" + sku, ""},
		{"GET", "/api/categories", ""},
		{"GET", "/healthz", ""},
		{"PUT", "/api/items/" + sku, `{"stock":1}`},
		{"DELETE", "/api/items/" + sku, ""},
	} {
		got := s.admin(w.method, w.path, w.body)
		if strings.Contains(got.Body.String(), "client is closed") {
			t.Errorf("%s %s has the backend's error: %s", w.method, w.path, got.Body)
		}
		wantProblem(t, got, 503, "backend")
	}
	if !strings.Contains(s.log.String(), "client is closed") {
		t.Error("the log does not have the backend's error")
	}
}

// If a lock that needs other servers fails, the error reply names these servers, too.
func TestServersOfALockMayBeAway(t *testing.T) {
	s := embeddedSite(t, func(wc *web.Config, sc *stock.Config) {
		wc.Strategies = append(wc.Strategies, web.Strategy{Name: "etcd", Servers: "etcd"})
		sc.Strategies["etcd"] = sc.Strategies["v6_watchdog"]
	})
	sku := s.put(t, 1)
	must(t, s.rdb.Close())
	for strategy, want := range map[string]string{
		"etcd":        `"Redis, the database or etcd is unavailable"`,
		"v6_watchdog": `"Redis or the database is unavailable"`,
	} {
		got := s.ask("POST", "/api/items/"+sku+"/deduct?strategy="+strategy, `{"quantity":1}`)
		if !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: %s does not say %s", strategy, got.Body, want)
		}
		wantProblem(t, got, 503, "backend")
	}
}

func TestPanicIsAProblem(t *testing.T) {
	s := embeddedSite(t, func(wc *web.Config, sc *stock.Config) {
		sc.Work = func(context.Context, string) (func(), error) { panic("in the work") }
	})
	sku := s.put(t, 1)
	wantProblem(t, s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":1}`), 500, "internal")
	if !strings.Contains(s.log.String(), "in the work") {
		t.Error("the log does not have the panic")
	}
	// The panic has released the guard, so the next request gets as far.
	wantProblem(t, s.ask("POST", "/api/items/"+sku+"/deduct", `{"quantity":1}`), 500, "internal")
}

// A backend's error is only logged even if it is the cause of another error, which has its own reply.
func TestCausesStayInTheLog(t *testing.T) {
	address := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("10.9.8.7:6379 refused")}
	for code, err := range map[string]error{
		"backlog":   fmt.Errorf("%w: %w", stock.ErrBacklog, address),
		"lock_lost": fmt.Errorf("%w: %w", stock.ErrLost, address),
		"sold_out":  fmt.Errorf("%w: %w: %w", stock.ErrLost, address, stock.ErrSoldOut),
		"cancelled": &net.OpError{Op: "dial 10.9.8.7:6379", Err: context.Canceled},
		"busy":      errors.Join(stock.ErrBusy, address),
	} {
		t.Run(code, func(t *testing.T) {
			s := embeddedSite(t, func(wc *web.Config, sc *stock.Config) {
				sc.Work = func(context.Context, string) (func(), error) { return nil, err }
			})
			w := s.ask("POST", "/api/items/"+s.put(t, 1)+"/deduct", `{"quantity":1}`)
			if strings.Contains(w.Body.String(), "10.9.8.7") {
				t.Errorf("the client got %s", w.Body)
			}
			status := http.StatusServiceUnavailable
			if code == "sold_out" {
				status = http.StatusConflict
			}
			wantProblem(t, w, status, code)
			if !strings.Contains(s.log.String(), "10.9.8.7") {
				t.Error("the log does not have the cause")
			}
		})
	}
}

// The texts of the shop's own errors are sent to clients in full, and not logged.
func TestOwnWordsAreTold(t *testing.T) {
	s := embeddedSite(t, nil)
	w := s.ask("POST", "/api/items/"+s.put(t, 1)+"/deduct", `{"quantity":2}`)
	if !strings.Contains(w.Body.String(), "sold out: 1 left") || s.log.String() != "" {
		t.Errorf("the client got %s, and the log %s", w.Body, s.log)
	}
}

func TestMetricsTellWhatHappened(t *testing.T) {
	t.Parallel()
	s := embeddedSite(t, func(cfg *web.Config, _ *stock.Config) {
		cfg.Connections = func() (time.Duration, int64) { return 1500 * time.Millisecond, 7 }
	})
	sku := s.put(t, 1)
	deduct := "/api/items/" + sku + "/deduct"
	s.ask("POST", deduct, `{"quantity":1}`, "Idempotency-Key", "click")
	s.ask("POST", deduct, `{"quantity":1}`, "Idempotency-Key", "click")
	s.ask("POST", deduct, `{"quantity":1}`)
	s.ask("POST", deduct+"?strategy="+strings.Repeat("x", 9), `{"quantity":1}`)
	s.ask("GET", "/api/items/"+sku+"?strategy=local", "")
	s.ask("GET", "/api/items/"+sku+"?strategy=local", "")
	page := wantMetrics(t, s,
		`oversell_requests_total{outcome="sold",strategy="v6_watchdog"} 1`,
		`oversell_requests_total{outcome="replayed",strategy="v6_watchdog"} 1`,
		`oversell_requests_total{outcome="sold_out",strategy="v6_watchdog"} 1`,
		`oversell_requests_total{outcome="read",strategy="local"} 2`,
		`oversell_lock_attempts_total{strategy="v6_watchdog"} 1`,
		`oversell_lock_hold_seconds_count{strategy="v6_watchdog"} 1`,
		`oversell_lock_wait_seconds_count{strategy="v6_watchdog"} 1`,
		`oversell_lock_renewals_total{strategy="v6_watchdog"} 0`,
		`oversell_cache_loads_total{strategy="local"} 1`,
		`oversell_db_connection_held_seconds_total 1.5`,
		`oversell_db_connection_holds_total 7`,
		`go_goroutines`,
	)
	if strings.Contains(page, "xxxxxxxxx") {
		t.Error("a name that a client made up has become a label")
	}
}

// wantMetrics checks that the metrics contain these lines, and returns all metrics.
func wantMetrics(t *testing.T, s *site, lines ...string) (page string) {
	t.Helper()
	page = s.ask("GET", "/metrics", "").Body.String()
	for _, line := range lines {
		if !strings.Contains(page, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	return page
}

func TestLostLeasesAndRenewalsAreCounted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ strategy, line string }{
		{"v4_lua", `oversell_lock_lost_total{strategy="v4_lua"} 1`},
		{"v6_watchdog", `oversell_lock_renewals_total{strategy="v6_watchdog"}`},
	} {
		const ttl = 600 * time.Millisecond
		rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
		db := backendtest.DialDatabase(t, backendtest.Database(t, "embedded"))
		s := newSite(t, rdb, db, func(_ *web.Config, sc *stock.Config) {
			strategy, err := strategies().Find(tt.strategy)
			must(t, err)
			o := catalog.Options{Redis: rdb, TTL: ttl, Policy: &guard.Line{Delay: time.Millisecond}}
			exclusive := stock.Exclusive(stock.Clients{Redis: rdb}, strategy.NewGuard(o))
			sc.Strategies = map[string]stock.Strategy{tt.strategy: {Guard: exclusive}}
			sc.Work = func(context.Context, string) (func(), error) { time.Sleep(2 * ttl); return nil, nil }
		})
		deduct := "/api/items/" + s.put(t, 1000) + "/deduct?strategy=" + tt.strategy
		const none = `renewals_total{strategy="v6_watchdog"} 0`
		for page := ""; !strings.Contains(page, tt.line) || strings.Contains(page, none); {
			s.ask("POST", deduct, `{"quantity":1}`) // repeated, because a machine may stall before the first renewal
			page = s.ask("GET", "/metrics", "").Body.String()
		}
	}
}

func TestParseHeld(t *testing.T) {
	for value, want := range map[string]int{"": 0, "1-2": 1, "1-2,3-4": 2} {
		if spans, err := web.ParseHeld(value); err != nil || len(spans) != want {
			t.Errorf("%q: %v, %v; want %d spans", value, spans, err, want)
		}
	}
	for _, value := range []string{"x", "1", "1-", "1-2,", ",1-2"} {
		if _, err := web.ParseHeld(value); err == nil {
			t.Errorf("%q: no error", value)
		}
	}
}

func TestHealthNamesTheInstance(t *testing.T) {
	s := embeddedSite(t, nil)
	var got struct{ Status, Instance string }
	read(t, s.ask("GET", "/healthz", ""), &got)
	if got.Status != "ok" || got.Instance != t.Name() {
		t.Errorf("got %+v", got)
	}
}

func TestRepairReturnsStrandedUnitsOverHTTP(t *testing.T) {
	s := embeddedSite(t, func(_ *web.Config, sc *stock.Config) {
		sc.Grace = 50 * time.Millisecond
	})
	sku := s.put(t, 10)
	key := s.rdb.Keys(t.Context(), "oversell:{"+sku+"}:stock:*").Val()
	if len(key) != 1 {
		t.Fatalf("the keys of the stock are %q", key)
	}
	must(t, s.rdb.DecrBy(t.Context(), key[0], 4).Err())
	found := s.audit(t, sku)
	if found.Stranded != 4 || found.InFlight != 0 {
		t.Errorf("%d stranded, %d in flight; want 4, 0", found.Stranded, found.InFlight)
	}
	for _, want := range []int64{4, 0} {
		var done stock.Repair
		read(t, s.admin("POST", "/api/audit/"+sku+"/repair", ""), &done)
		if done.Returned != want || done.SKU != sku || done.SaleID != found.SaleID {
			t.Errorf("got %+v, want %d units", done, want)
		}
	}
	found = s.audit(t, sku)
	if found.Stranded != 0 || found.Remaining != 10 {
		t.Errorf("the audit finds %+v", found)
	}
}
