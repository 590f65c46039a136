package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/stock"
	"oversell/internal/stock/stream"
	"oversell/internal/web"
)

// request sends a request with headers, and the token.
func (s *site) request(t *testing.T, method, path, body string, headers map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Authorization", "Bearer "+token)
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res := httptest.NewRecorder()
	s.ServeHTTP(res, req)
	return res
}

// consume writes accepted orders until the test ends.
func (s *site) consume(t testing.TB) {
	t.Helper()
	s.consumeWith(t, stream.Consumer{Poll: 10 * time.Millisecond})
}

func (s *site) consumeWith(t testing.TB, consumer stream.Consumer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.stock.Consume(ctx, consumer)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

const acceptPath = "/deduct?strategy=lua_stream"

func TestAnAcceptedOrderIsAnswered(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	buy := func(prefer, key string) (*httptest.ResponseRecorder, map[string]any) {
		headers := map[string]string{"Idempotency-Key": key}
		if prefer != "" {
			headers["Prefer"] = prefer
		}
		res := s.request(t, http.MethodPost, "/api/items/"+sku+acceptPath, `{"quantity":1}`, headers)
		var body map[string]any
		if err := json.Unmarshal(res.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		return res, body
	}
	res, body := buy("", "a")
	location := "/api/orders/" + fmt.Sprint(body["order_id"]) + "?sku=" + sku
	if res.Code != http.StatusAccepted || body["state"] != "accepted" ||
		res.Header().Get("Location") != location || res.Header().Get("Preference-Applied") != "" {
		t.Errorf("got %d, %v, %v", res.Code, body, res.Header())
	}
	state := s.request(t, http.MethodGet, location, "", nil)
	if state.Code != http.StatusOK || !strings.Contains(state.Body.String(), `"state":"accepted"`) {
		t.Errorf("its state: %d, %s", state.Code, state.Body)
	}
	res, body = buy("respond-async, wait=1", "a")
	if res.Code != http.StatusAccepted || body["replayed"] != true ||
		res.Header().Get("Preference-Applied") != "wait=1" {
		t.Errorf("waiting with no consumer: %d, %v, %v", res.Code, body, res.Header())
	}
	s.consume(t)
	for res, body = buy("wait=60", "b"); res.Code == http.StatusAccepted; { // the machine stalls
		res, body = buy("wait=60", "b")
	}
	if res.Code != http.StatusOK || body["state"] != "written" ||
		res.Header().Get("Preference-Applied") != "wait=10" {
		t.Errorf("waiting: %d, %v, %v", res.Code, body, res.Header())
	}
	order := "/api/orders/" + fmt.Sprint(body["order_id"])
	state = s.request(t, http.MethodGet, order, "", nil)
	if !strings.Contains(state.Body.String(), `"state":"written"`) {
		t.Errorf("its state: %d, %s", state.Code, state.Body)
	}
	for _, prefer := range []string{"wait=3", ""} { // a repeated request for a written order gets the same reply
		res, again := buy(prefer, "b")
		if res.Code != http.StatusOK || again["state"] != "written" || again["replayed"] != true ||
			again["order_id"] != body["order_id"] || res.Header().Get("Location") != order+"?sku="+sku ||
			res.Header().Get("Preference-Applied") != prefer {
			t.Errorf("the repeat with %q: %d, %v, %v", prefer, res.Code, again, res.Header())
		}
	}
	for _, prefer := range []string{"wait=soon", "wait", "wait=-1", ";;,"} {
		if res, _ := buy(prefer, "c"+prefer[:1]); res.Header().Get("Preference-Applied") != "" {
			t.Errorf("Prefer: %s was applied", prefer)
		}
	}
}

func TestUnknownOrders(t *testing.T) {
	s := embeddedSite(t, nil)
	for path, want := range map[string]string{
		"/api/orders/01a2051e-293a-73b9-bea3-16e802ad4c04":       "404 unknown_order",
		"/api/orders/01a2051e-293a-73b9-bea3-16e802ad4c04?sku=x": "404 unknown_order",
		"/api/orders/" + strings.Repeat("a", 37):                 "400 invalid",
		"/api/orders/a?sku=%21":                                  "400 invalid",
		"/api/items/nothing/dead":                                "404 unknown_item",
	} {
		res := s.request(t, http.MethodGet, path, "", nil)
		var problem struct{ Code string }
		if err := json.Unmarshal(res.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d %s", res.Code, problem.Code); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestAFullStreamAnswers503(t *testing.T) {
	s := embeddedSite(t, func(_ *web.Config, sc *stock.Config) {
		sc.Strategies["lua_stream"] = stock.Strategy{Script: stock.Streamed(sc.Redis, stock.Stream{Backlog: 1})}
	})
	sku := s.put(t, 10)
	path := "/api/items/" + sku + acceptPath
	if res := s.request(t, http.MethodPost, path, `{"quantity":1}`, nil); res.Code != http.StatusAccepted {
		t.Errorf("got %d, %s", res.Code, res.Body)
	}
	res := s.request(t, http.MethodPost, path, `{"quantity":1}`, nil)
	if res.Code != http.StatusServiceUnavailable || !strings.Contains(res.Body.String(), `"code":"backlog"`) ||
		res.Header().Get("Retry-After") == "" {
		t.Errorf("got %d, %s, %v", res.Code, res.Body, res.Header())
	}
}

// A repeated request for an order that the database did not take says why it waits, as does GET of
// the order.
func TestTheRepeatOfADeadLetterHasItsReason(t *testing.T) {
	s := embeddedSite(t, func(_ *web.Config, sc *stock.Config) {
		err := sc.DB.Callback().Create().Before("gorm:create").Register("refuse", func(tx *gorm.DB) {
			if tx.Statement.Table == "oversell_orders" {
				_ = tx.AddError(gorm.ErrCheckConstraintViolated)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	sku := s.put(t, 10)
	s.consumeWith(t, stream.Consumer{Poll: 10 * time.Millisecond, ClaimAfter: 20 * time.Millisecond, Tries: 1})
	buy := func(prefer string) string {
		headers := map[string]string{"Idempotency-Key": "a"}
		if prefer != "" {
			headers["Prefer"] = prefer
		}
		res := s.request(t, http.MethodPost, "/api/items/"+sku+acceptPath, `{"quantity":1}`, headers)
		return fmt.Sprint(res.Code, " ", res.Body)
	}
	const reason = `"state":"accepted","reason":"the database did not take the order`
	for !strings.Contains(buy("wait=1"), reason) { // until the consumer has tried it
	}
	for _, prefer := range []string{"", "wait=1"} {
		if got := buy(prefer); !strings.HasPrefix(got, "202 ") || !strings.Contains(got, `"replayed":true,`+reason) {
			t.Errorf("its repeat with %q: %s", prefer, got)
		}
	}
}

// Dead letters need the token, and a retry takes units from the current stock.
func TestDeadLettersOverHTTP(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 1)
	s.consume(t)
	buy := func(key string) string {
		headers := map[string]string{"Prefer": "wait=10", "Idempotency-Key": key}
		res := s.request(t, http.MethodPost, "/api/items/"+sku+acceptPath, `{"quantity":1}`, headers)
		for res.Code == http.StatusAccepted { // the machine stalls
			res = s.request(t, http.MethodPost, "/api/items/"+sku+acceptPath, `{"quantity":1}`, headers)
		}
		var body struct{ Detail string }
		if err := json.Unmarshal(res.Body.Bytes(), &body); err != nil {
			t.Error(err)
		}
		return strings.TrimSpace(fmt.Sprint(res.Code, " ", body.Detail))
	}
	if got := buy("a"); got != "200" {
		t.Fatalf("the unit: %s", got)
	}
	keys, err := s.rdb.Keys(t.Context(), "oversell:{"+sku+"}:stock:*").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("%v, %v", keys, err)
	}
	if err := s.rdb.Set(t.Context(), keys[0], 1, 0).Err(); err != nil { // as if Redis had lost the sale
		t.Fatal(err)
	}
	const want = "409 the order is not accepted: the database has too few units left: Redis had lost sales"
	if got := buy("b"); got != want {
		t.Errorf("a unit that was sold already: %s, want %s", got, want)
	}
	path := "/api/items/" + sku + "/dead"
	res := s.request(t, http.MethodGet, path, "", nil)
	if res.Code != http.StatusOK || !strings.Contains(res.Body.String(), `"kind":"refused"`) {
		t.Errorf("the dead letters: %d, %s", res.Code, res.Body)
	}
	for _, r := range []struct{ method, path string }{{http.MethodGet, path}, {http.MethodPost, path + "/retry"}} {
		res := s.request(t, r.method, r.path, "", map[string]string{"Authorization": "none"})
		if res.Code != http.StatusUnauthorized {
			t.Errorf("%s %s without the token: %d", r.method, r.path, res.Code)
		}
	}
	res = s.request(t, http.MethodPost, path+"/retry", "", nil)
	retried := fmt.Sprintf(`{"sku":%q,"requeued":0,"written":0,"left":1,"over":0}`, sku)
	if res.Code != http.StatusOK || res.Body.String() != retried {
		t.Errorf("retrying: %d, %s", res.Code, res.Body)
	}
}
