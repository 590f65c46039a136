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

// consume writes accepted orders until the test ends.
func (s *site) consume(t *testing.T, consumer stream.Consumer) {
	t.Helper()
	consumer.Poll = 10 * time.Millisecond
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

// accept buys a unit with an idempotency key, and with a Prefer header unless prefer is empty.
func (s *site) accept(sku, prefer, key string) *httptest.ResponseRecorder {
	headers := []string{"Idempotency-Key", key}
	if prefer != "" {
		headers = append(headers, "Prefer", prefer)
	}
	return s.ask("POST", "/api/items/"+sku+acceptPath, `{"quantity":1}`, headers...)
}

func TestAnAcceptedOrderIsAnswered(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 10)
	buy := func(prefer, key string) (*httptest.ResponseRecorder, map[string]any) {
		res := s.accept(sku, prefer, key)
		var body map[string]any
		must(t, json.Unmarshal(res.Body.Bytes(), &body))
		return res, body
	}
	res, body := buy("", "a")
	location := "/api/orders/" + fmt.Sprint(body["order_id"]) + "?sku=" + sku
	if res.Code != http.StatusAccepted || body["state"] != "accepted" ||
		res.Header().Get("Location") != location || res.Header().Get("Preference-Applied") != "" {
		t.Errorf("got %d, %v, %v", res.Code, body, res.Header())
	}
	state := s.ask("GET", location, "")
	if state.Code != http.StatusOK || !strings.Contains(state.Body.String(), `"state":"accepted"`) {
		t.Errorf("its state: %d, %s", state.Code, state.Body)
	}
	res, body = buy("respond-async, wait=1", "a")
	if res.Code != http.StatusAccepted || body["replayed"] != true ||
		res.Header().Get("Preference-Applied") != "wait=1" {
		t.Errorf("waiting with no consumer: %d, %v, %v", res.Code, body, res.Header())
	}
	s.consume(t, stream.Consumer{})
	for res, body = buy("wait=60", "b"); res.Code == http.StatusAccepted; { // repeat it if the machine stalls
		res, body = buy("wait=60", "b")
	}
	if res.Code != http.StatusOK || body["state"] != "written" ||
		res.Header().Get("Preference-Applied") != "wait=10" {
		t.Errorf("waiting: %d, %v, %v", res.Code, body, res.Header())
	}
	order := "/api/orders/" + fmt.Sprint(body["order_id"])
	state = s.ask("GET", order, "")
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

// If the database refuses an accepted order, the replies to a repeated request and to a GET of the
// order give the reason why the order is not written.
func TestTheRepeatOfADeadLetterHasItsReason(t *testing.T) {
	s := embeddedSite(t, func(_ *web.Config, sc *stock.Config) {
		err := sc.DB.Callback().Create().Before("gorm:create").Register("refuse", func(tx *gorm.DB) {
			if tx.Statement.Table == "oversell_orders" {
				_ = tx.AddError(gorm.ErrCheckConstraintViolated)
			}
		})
		must(t, err)
	})
	sku := s.put(t, 10)
	s.consume(t, stream.Consumer{ClaimAfter: 20 * time.Millisecond, Tries: 1})
	buy := func(prefer string) string {
		res := s.accept(sku, prefer, "a")
		return fmt.Sprint(res.Code, " ", res.Body)
	}
	const reason = `"state":"accepted","reason":"the database did not take the order`
	for !strings.Contains(buy("wait=1"), reason) { // until the consumer has tried to write the order
	}
	for _, prefer := range []string{"", "wait=1"} {
		if got := buy(prefer); !strings.HasPrefix(got, "202 ") || !strings.Contains(got, `"replayed":true,`+reason) {
			t.Errorf("its repeat with %q: %s", prefer, got)
		}
	}
}

// Dead letters are listed, and a retry leaves them as they are if the current stock has no units for them.
func TestDeadLettersOverHTTP(t *testing.T) {
	s := embeddedSite(t, nil)
	sku := s.put(t, 1)
	s.consume(t, stream.Consumer{})
	buy := func(key string) string {
		res := s.accept(sku, "wait=10", key)
		for res.Code == http.StatusAccepted { // repeat it if the machine stalls
			res = s.accept(sku, "wait=10", key)
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
	if err := s.rdb.Set(t.Context(), keys[0], 1, 0).Err(); err != nil { // as if Redis had lost the purchase
		t.Fatal(err)
	}
	const want = "409 the order is not accepted: the database has too few units left: Redis had lost sales"
	if got := buy("b"); got != want {
		t.Errorf("a unit that was sold already: %s, want %s", got, want)
	}
	wantMetrics(t, s, `oversell_requests_total{outcome="not_accepted",strategy="lua_stream"} 1`)
	path := "/api/items/" + sku + "/dead"
	res := s.admin("GET", path, "")
	if res.Code != http.StatusOK || !strings.Contains(res.Body.String(), `"kind":"refused"`) {
		t.Errorf("the dead letters: %d, %s", res.Code, res.Body)
	}
	res = s.admin("POST", path+"/retry", "")
	retried := fmt.Sprintf(`{"sku":%q,"requeued":0,"written":0,"left":1,"over":0}`, sku)
	if res.Code != http.StatusOK || res.Body.String() != retried {
		t.Errorf("retrying: %d, %s", res.Code, res.Body)
	}
}
