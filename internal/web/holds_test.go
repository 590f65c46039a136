package web_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/holds"
	"oversell/internal/holds/payfault"
	"oversell/internal/payment"
	"oversell/internal/stock"
	"oversell/internal/web"
)

const webhookSecret = "the secret of the provider"

// holdSite is a shop that sells with holds, together with its payment provider.
type holdSite struct {
	*site
	provider *payment.Server
	paid     *payment.Client
}

// embeddedHoldSite returns a holdSite for tests that do not depend on the backends.
func embeddedHoldSite(t testing.TB, cfg holds.Config) *holdSite {
	t.Helper()
	return newHoldSite(t, cfg, false)
}

// newHoldSite returns a holdSite. If own is true, its provider counts as embedded in the shop.
func newHoldSite(t testing.TB, cfg holds.Config, own bool) *holdSite {
	t.Helper()
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	db := backendtest.DialDatabase(t, backendtest.Database(t, "embedded"))
	must(t, errors.Join(stock.Migrate(t.Context(), db), holds.Migrate(t.Context(), db)))
	pool, err := db.DB()
	must(t, err)
	log := slog.New(slog.DiscardHandler)
	s := &holdSite{provider: payment.NewServer(payment.Config{
		Secret: []byte(webhookSecret), Logger: log, RetryFrom: time.Millisecond,
	})}
	address := httptest.NewServer(s.provider)
	t.Cleanup(address.Close)
	if s.paid, err = payment.NewClient(payment.ClientConfig{URL: address.URL, Timeout: time.Hour}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.paid.Close)
	cfg.DB, cfg.Payments, cfg.Logger = db, s.paid, log
	b := holds.Backends{Redis: rdb, DB: pool, SQL: holds.DialectOf(db)}
	cfg.Stages = catalog.Holds(b)
	var faults *payfault.Faults
	if own {
		faults = payfault.New(payfault.Config{Provider: s.provider, Backends: b, New: catalog.Holds})
		cfg.Stages, cfg.Entries = faults.Wrap(cfg.Stages), s.provider.Group
	}
	service := holds.New(cfg)
	t.Cleanup(service.Close)
	s.site = newSite(t, rdb, db, func(wc *web.Config, sc *stock.Config) {
		sc.Holds, wc.Holds, wc.WebhookSecret = service, service, []byte(webhookSecret)
		wc.HoldStages, wc.HoldStage, wc.HoldFaults = holdStages(), catalog.DefaultHoldStage, faults
	})
	return s
}

func holdStages() (all []web.Strategy) {
	for _, name := range catalog.HoldNames() {
		all = append(all, web.Strategy{Name: name})
	}
	return all
}

// sell puts a new item on sale that is sold with holds, and returns its SKU.
func (s *holdSite) sell(t testing.TB, units int64) string {
	t.Helper()
	sku := fmt.Sprintf("seat-%d", skus.Add(1))
	w := s.admin("PUT", "/api/items/"+sku, fmt.Sprintf(`{"stock":%d,"keeper":"holds"}`, units))
	if w.Code != http.StatusOK {
		t.Fatalf("putting it on sale: %d %s", w.Code, w.Body)
	}
	return sku
}

// hold makes a hold for a buyer. Headers are pairs of a name and a value.
func (s *holdSite) hold(t testing.TB, sku, buyer string, quantity int, headers ...string) holds.Hold {
	t.Helper()
	body := fmt.Sprintf(`{"buyer":%q,"quantity":%d}`, buyer, quantity)
	w := s.ask("POST", "/api/items/"+sku+"/holds", body, headers...)
	var h holds.Hold
	if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("holding: %d %s, %v", w.Code, w.Body, err)
	}
	if h.ID == "" || w.Header().Get("Location") != "/api/holds/"+h.ID {
		t.Errorf("the hold is %+v at %s", h, w.Header().Get("Location"))
	}
	return h
}

// holdBy makes a hold with a stage, for the buyer "ann".
func (s *holdSite) holdBy(t testing.TB, stage, sku string, quantity int) (h holds.Hold) {
	t.Helper()
	body := fmt.Sprintf(`{"buyer":"ann","quantity":%d}`, quantity)
	w := s.ask("POST", "/api/items/"+sku+"/holds?strategy="+stage, body)
	if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("holding: %d %s, %v", w.Code, w.Body, err)
	}
	return h
}

// pay pays for a hold with an idempotency key.
func (s *holdSite) pay(h holds.Hold, key string) *httptest.ResponseRecorder {
	return s.ask("POST", "/api/holds/"+h.ID+"/pay", fmt.Sprintf(`{"token":%d}`, h.Token), "Idempotency-Key", key)
}

// release asks the shop to release a hold.
func (s *holdSite) release(h holds.Hold, token int64) *httptest.ResponseRecorder {
	return s.ask("DELETE", fmt.Sprintf("/api/holds/%s?token=%d", h.ID, token), "")
}

// inject sets the faults of the provider.
func (s *holdSite) inject(t testing.TB, faults payment.Faults) {
	t.Helper()
	must(t, s.paid.SetFaults(t.Context(), faults))
}

func (s *holdSite) buy(t testing.TB, sku, buyer string) holds.Order {
	t.Helper()
	var o holds.Order
	read(t, s.pay(s.hold(t, sku, buyer, 1), "key"), &o)
	return o
}

// wantBooks checks the audit of the sale and the audit of the payments.
func (s *holdSite) wantBooks(t testing.TB, sku string, sold, held int64, want payment.Books) {
	t.Helper()
	audit := s.audit(t, sku)
	if audit.Sold != sold || audit.Held != held ||
		audit.Oversold != 0 || audit.Stranded != 0 || audit.LostUpdates != 0 {
		t.Errorf("the sale is %+v; want %d sold and %d held", audit.Audit, sold, held)
	}
	page, err := s.stock.Orders(t.Context(), sku, "", stock.MaxOrders)
	must(t, err)
	orders := make(map[string]int)
	for _, o := range page.Orders {
		var order holds.Order
		read(t, s.ask("GET", "/api/orders/"+o.ID, ""), &order)
		orders[order.PaymentID]++
	}
	ledger, err := s.paid.Ledger(t.Context())
	must(t, err)
	if got := payment.Audit(ledger, orders); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the money is %+v; want %+v", got, want)
	}
}

func TestHoldIsPaidAndBecomesAnOrder(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{Price: 250})
	for _, stage := range catalog.HoldNames() {
		sku := s.sell(t, 3)
		h, now := s.holdBy(t, stage, sku, 2), holds.Hold{}
		read(t, s.ask("GET", "/api/holds/"+h.ID, ""), &now)
		if now.Status != holds.Held || now.Buyer != "ann" || now.Quantity != 2 || !now.ExpiresAt.After(time.Now()) {
			t.Errorf("%s: the hold is %+v", stage, now)
		}
		wantProblem(t, s.ask("GET", "/api/orders/"+h.ID, ""), http.StatusNotFound, "unknown_order")
		late := s.ask("POST", "/api/items/"+sku+"/holds?strategy="+stage, `{"buyer":"bob","quantity":2}`)
		wantProblem(t, late, http.StatusConflict, "sold_out")
		var order, again holds.Order
		read(t, s.pay(h, "key"), &order)
		written := s.ask("GET", "/api/orders/"+h.ID, "")
		read(t, written, &again)
		if !strings.Contains(written.Body.String(), `"state":"written"`) {
			t.Errorf("%s: the order is %s; want its state", stage, written.Body)
		}
		if order.ID != h.ID || order.SKU != sku || order.Quantity != 2 || again != order {
			t.Errorf("%s: the order is %+v, and then %+v", stage, order, again)
		}
		p, err := s.paid.Payment(t.Context(), order.PaymentID)
		if err != nil || p.Status != payment.Captured || p.Amount != 500 {
			t.Errorf("%s: the payment is %+v, %v", stage, p, err)
		}
		paid := s.ask("GET", "/api/holds/"+h.ID, "").Body.String()
		if strings.Contains(paid, `"buyer":""`) || strings.Contains(paid, `"0001-`) {
			t.Errorf("%s: what is not known is in %s", stage, paid)
		}
		wantProblem(t, s.release(h, h.Token), http.StatusConflict, "hold_ended")
	}
}

func TestHoldIsExtended(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{TTL: time.Hour})
	h := s.hold(t, s.sell(t, 1), "ann", 1)
	extend := func(token int64) *httptest.ResponseRecorder {
		return s.ask("POST", "/api/holds/"+h.ID+"/extend", fmt.Sprintf(`{"token":%d}`, token))
	}
	wantProblem(t, extend(h.Token+1), http.StatusConflict, "wrong_token")
	var later holds.Hold
	read(t, extend(h.Token), &later)
	if later.ID != h.ID || later.ExpiresAt.Before(h.ExpiresAt) {
		t.Errorf("it is %+v, and was %+v", later, h)
	}
	s = embeddedHoldSite(t, holds.Config{TTL: time.Hour, Max: time.Hour})
	h = s.hold(t, s.sell(t, 1), "ann", 1)
	wantProblem(t, extend(h.Token), http.StatusConflict, "hold_max")
}

// Both the buyer and the shop can cancel an order, and can repeat the request.
func TestOrderIsCancelled(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 1)
	for _, by := range []string{"buyer", "shop"} {
		h := s.hold(t, sku, "ann", 1)
		cancel := func(token int64) *httptest.ResponseRecorder {
			if by == "shop" {
				return s.admin("POST", "/api/orders/"+h.ID+"/cancel", "{}")
			}
			return s.ask("POST", "/api/orders/"+h.ID+"/cancel", fmt.Sprintf(`{"token":%d}`, token))
		}
		wantProblem(t, cancel(h.Token), http.StatusNotFound, "unknown_order")
		read(t, s.pay(h, "key"), new(holds.Order))
		if by == "buyer" {
			wantProblem(t, cancel(h.Token+1), http.StatusConflict, "wrong_token")
			wantProblem(t, s.ask("POST", "/api/orders/"+h.ID+"/cancel", "{}"), http.StatusUnauthorized, "no_token")
		}
		for range 2 {
			wantNothing(t, cancel(h.Token))
		}
		wantProblem(t, s.ask("GET", "/api/orders/"+h.ID, ""), http.StatusNotFound, "unknown_order")
	}
	s.wantBooks(t, sku, 0, 0, payment.Books{Authorised: 2, Captured: 2, Refunded: 2})
}

// A repair of an item that is sold with holds is refused, and the reply says that the sweep returns
// units.
func TestRepairOfASaleByHolds(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	w := s.admin("POST", "/api/audit/"+s.sell(t, 1)+"/repair", "")
	if text := w.Body.String(); !strings.Contains(text, "the sweep returns the units of holds") {
		t.Errorf("got %s", text)
	}
	wantProblem(t, w, http.StatusBadRequest, "wrong_keeper")
}

// Buyers release or pay for a hold only with its own token, and can repeat the release. An open hold
// blocks the deletion of its item.
func TestHoldIsReleased(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 2)
	h, other := s.hold(t, sku, "ann", 1), s.hold(t, sku, "bob", 1)
	wantProblem(t, s.release(h, other.Token), http.StatusConflict, "wrong_token")
	asOther := h
	asOther.Token = other.Token
	wantProblem(t, s.pay(asOther, "key"), http.StatusConflict, "wrong_token")
	for _, query := range []string{"", "?token=", "?token=1e1", "?token=99999999999999999999", "?token=1&token=1"} {
		wantProblem(t, s.ask("DELETE", "/api/holds/"+h.ID+query, ""), http.StatusBadRequest, "invalid")
	}
	wantProblem(t, s.admin("DELETE", "/api/items/"+sku, ""), http.StatusConflict, "holds_open")
	for _, ends := range []holds.Hold{h, h, other} { // the reply to the first may have been lost
		wantNothing(t, s.release(ends, ends.Token))
	}
	wantProblem(t, s.pay(h, "key"), http.StatusConflict, "hold_ended")
	wantNothing(t, s.admin("DELETE", "/api/items/"+sku, ""))
	wantProblem(t, s.ask("GET", "/api/holds/"+h.ID, ""), http.StatusNotFound, "unknown_hold")
}

// A repeated request makes no second hold and no second charge. A key cannot be used for another
// request.
func TestHoldsAndPaymentsCanBeRepeated(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 10)
	h := s.hold(t, sku, "ann", 1, "Idempotency-Key", "click-1")
	if again := s.hold(t, sku, "ann", 1, "Idempotency-Key", "click-1"); again != h {
		t.Errorf("got %+v; want %+v", again, h)
	}
	w := s.ask("POST", "/api/items/"+sku+"/holds", `{"buyer":"bob","quantity":1}`, "Idempotency-Key", "click-1")
	wantProblem(t, w, http.StatusUnprocessableEntity, "key_reused")
	var first, second holds.Order
	read(t, s.pay(h, "pay-1"), &first)
	read(t, s.pay(h, "pay-1"), &second)
	if first != second {
		t.Errorf("the orders are %+v and %+v", first, second)
	}
	wantProblem(t, s.pay(h, "pay-2"), http.StatusConflict, "hold_ended")
	s.wantBooks(t, sku, 1, 0, payment.Books{Authorised: 2, Captured: 1, Cancelled: 1})
}

// A declined payment does not change the hold, which can still be paid with another key. If the
// provider is unavailable, the buyer is not charged, and the reply does not reveal its address.
func TestPaymentThatFailsCanBeTriedAgain(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 1)
	h := s.hold(t, sku, "ann", 1)
	s.inject(t, payment.Faults{FailEvery: 1})
	w := s.pay(h, "key")
	if strings.Contains(w.Body.String(), "127.0.0.1") {
		t.Errorf("the reply names the provider: %s", w.Body)
	}
	wantProblem(t, w, http.StatusServiceUnavailable, "payment_unavailable")
	s.inject(t, payment.Faults{DeclineEvery: 1})
	w = s.pay(h, "card-1")
	if n := strings.Count(w.Body.String(), "authorising"); n != 1 {
		t.Errorf("the reply says %d times what failed: %s", n, w.Body)
	}
	wantProblem(t, w, http.StatusPaymentRequired, "declined")
	s.inject(t, payment.Faults{})
	wantProblem(t, s.pay(h, "card-1"), http.StatusPaymentRequired, "declined")
	s.wantBooks(t, sku, 0, 1, payment.Books{Declined: 1})
	read(t, s.pay(h, "card-2"), new(holds.Order))
	s.wantBooks(t, sku, 1, 0, payment.Books{Declined: 1, Authorised: 1, Captured: 1})
}

// capture captures a payment with a reference at the provider, bypassing the shop.
func (s *holdSite) capture(t *testing.T, reference string) payment.Payment {
	t.Helper()
	return s.charge(t, payment.Request{Reference: reference, Amount: holds.DefaultPrice})
}

func (s *holdSite) charge(t testing.TB, r payment.Request) payment.Payment {
	t.Helper()
	r.Key, r.Currency = "a/"+r.Reference, "EUR"
	p, err := s.paid.Authorise(t.Context(), r)
	if err == nil {
		p, err = s.paid.Capture(t.Context(), p.ID, "c/"+r.Reference)
	}
	must(t, err)
	return p
}

// event returns the body of a webhook.
func event(p payment.Payment, kind payment.EventType) string {
	text, err := json.Marshal(payment.Event{ID: "evt_1", Type: kind, Time: time.Now(), Payment: p})
	if err != nil {
		panic(err) // cannot happen with strings and numbers
	}
	return string(text)
}

// webhook sends the shop a webhook that is signed now.
func (s *holdSite) webhook(body string) *httptest.ResponseRecorder {
	signature := payment.Sign([]byte(webhookSecret), []byte(body), time.Now())
	return s.ask("POST", "/api/payments/webhook", body, payment.SignatureHeader, signature)
}

// The shop takes only the payment's id from a webhook, and asks the provider for everything else, even
// if the webhook is signed.
func TestWebhookIsNotBelieved(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 5)
	h := s.hold(t, sku, "ann", 1)
	bought := s.buy(t, sku, "bob")
	authorised, err := s.paid.Authorise(t.Context(),
		payment.Request{Key: "k", Reference: h.Reference(), Amount: 1000, Currency: "EUR"})
	must(t, err)
	paid, err := s.paid.Payment(t.Context(), bought.PaymentID)
	must(t, err)
	foreign, other := s.capture(t, "an-order-of-another-shop"), s.capture(t, "h3-0123456789abcdef0123456789abcdef/1")
	bare, malformed, staged := s.capture(t, h.ID), s.capture(t, h.ID+"/x"), s.capture(t, "h9-"+h.ID[3:]+"/1")
	moved, invented := paid, paid
	moved.Reference = authorised.Reference // bob's payment with the reference of ann's hold
	invented.ID = "pay_0123456789abcdef0123456789abcdef"
	claimed := authorised
	claimed.Status = payment.Captured // which is false
	minimal := `{"id":"evt_1","type":"payment.captured","payment":{"id":"` + paid.ID + `"}}`
	extended := strings.Replace(event(paid, payment.EventCaptured), `{"id"`, `{"livemode":false,"id"`, 1)
	for name, c := range map[string]struct {
		body, result string
	}{
		"again":                       {event(paid, payment.EventCaptured), "settled"},
		"for another hold":            {event(moved, payment.EventCaptured), "settled"},
		"a capture that never was":    {event(claimed, payment.EventCaptured), "ignored"},
		"no more than an id":          {minimal, "settled"},
		"no payment at all":           {`{"id":"evt_1","type":"customer.created"}`, "ignored"},
		"an unknown payment":          {event(invented, payment.EventCaptured), "ignored"},
		"a payment for another shop":  {event(foreign, payment.EventCaptured), "ignored"},
		"a hold of another shop":      {event(other, payment.EventCaptured), "ignored"},
		"a hold without a number":     {event(bare, payment.EventCaptured), "ignored"},
		"a malformed number":          {event(malformed, payment.EventCaptured), "ignored"},
		"an unknown stage of holds":   {event(staged, payment.EventCaptured), "ignored"},
		"a type that is not known":    {event(paid, "payment.disputed"), "ignored"},
		"a refund that never was":     {event(paid, payment.EventRefunded), "ignored"},
		"a failed refund of an order": {event(paid, payment.EventRefundFailed), "settled"}, // no refund was ever made
		"a failed refund elsewhere":   {event(other, payment.EventRefundFailed), "ignored"},
		"fields that are added later": {extended, "settled"},
	} {
		w := s.webhook(c.body)
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), c.result) {
			t.Errorf("%s: %d %s; want %s", name, w.Code, w.Body, c.result)
		}
	}
	s.wantBooks(t, sku, 1, 1, payment.Books{
		Authorised: 7, Captured: 6, ChargedWithoutOrder: 5, // the orders of five captures are in the other shop
		Wrong: accounts(foreign, other, bare, malformed, staged),
	})
}

// accounts returns the accounts of captured payments without an order, in the audit's order.
func accounts(payments ...payment.Payment) []payment.Account {
	var ledger []payment.Entry
	for _, p := range payments {
		ledger = append(ledger, payment.Entry{PaymentID: p.ID, Reference: p.Reference, Status: payment.Captured})
	}
	return payment.Audit(ledger, nil).Wrong
}

// The signature of a webhook is checked before its body is parsed.
func TestWebhookMustBeSigned(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 1)
	h := s.hold(t, sku, "ann", 1)
	p := s.capture(t, fmt.Sprintf("%s/%d", h.ID, h.Token))
	body := event(p, payment.EventCaptured)
	sign := func(secret, body string, at time.Time) string {
		return payment.Sign([]byte(secret), []byte(body), at)
	}
	now := time.Now()
	signed := sign(webhookSecret, body, now)
	for name, signatures := range map[string][]string{
		"none":           nil,
		"another secret": {sign("x", body, now)},
		"two":            {signed, signed},
	} {
		r := httptest.NewRequest("POST", "/api/payments/webhook", strings.NewReader(body))
		r.Header[payment.SignatureHeader] = signatures
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		t.Run(name, func(t *testing.T) { wantProblem(t, w, http.StatusBadRequest, "wrong_signature") })
	}
	stale := sign(webhookSecret, body, now.Add(-payment.Tolerance-time.Minute))
	old := s.ask("POST", "/api/payments/webhook", body, payment.SignatureHeader, stale)
	wantProblem(t, old, http.StatusBadRequest, "stale_signature")
	wantProblem(t, s.webhook("{}"), http.StatusBadRequest, "invalid")
	long := s.ask("POST", "/api/payments/webhook", strings.Repeat(" ", 5000))
	wantProblem(t, long, http.StatusRequestEntityTooLarge, "too_large")
	wantProblem(t, s.ask("GET", "/api/payments/webhook", ""), http.StatusMethodNotAllowed, "wrong_method")
	s.wantBooks(t, sku, 0, 1, payment.Books{Authorised: 1, Captured: 1, ChargedWithoutOrder: 1, Wrong: accounts(p)})
	if w := s.webhook(body); w.Code != http.StatusOK {
		t.Errorf("the real one got %d %s", w.Code, w.Body)
	}
	s.wantBooks(t, sku, 1, 0, payment.Books{Authorised: 1, Captured: 1})
}

func TestHoldsThatCannotBe(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku, deducted := s.sell(t, 5), s.put(t, 5)
	at := "/api/items/" + sku + "/holds"
	good := `{"buyer":"ann","quantity":1}`
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", at + "?strategy=h0", good, 404, "unknown_strategy"},
		{"POST", at + "?ttl=1h", good, 400, "invalid"},
		{"POST", "/api/items/nothing/holds", good, 404, "unknown_item"},
		{"POST", "/api/items/" + deducted + "/holds", good, 400, "wrong_keeper"},
		{"POST", "/api/items/" + sku + "/deduct", `{"quantity":1}`, 400, "wrong_keeper"},
		{"POST", at, `{"buyer":"ann"}`, 400, "invalid"},
		{"POST", at, `{"quantity":1}`, 400, "invalid"},
		{"POST", at, `{"buyer":"ann","quantity":1,"price":1}`, 400, "invalid"},
		{"GET", "/api/holds/h3-1", "", 404, "unknown_hold"},
		{"POST", "/api/holds/h3-1/pay", `{"token":1}`, 404, "unknown_hold"},
		{"POST", "/api/holds/h3-1/pay", `{}`, 400, "invalid"},
		{"POST", "/api/holds/h3-1/extend", `{"token":1}`, 404, "unknown_hold"},
		{"POST", "/api/holds/h3-1/extend", `{}`, 400, "invalid"},
		{"DELETE", "/api/holds/h3-1?token=1", "", 404, "unknown_hold"},
		{"GET", "/api/orders/h3-1", "", 404, "unknown_order"},
	} {
		t.Run(c.method+" "+c.path+" "+c.body, func(t *testing.T) {
			wantProblem(t, s.ask(c.method, c.path, c.body), c.status, c.code)
		})
	}
	s.wantBooks(t, sku, 0, 0, payment.Books{})
}

// A sale with holds may set how long they last, within limits. Other sales may not.
func TestHoldSecondsOfASale(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	var item stock.Item
	read(t, s.admin("PUT", "/api/items/short", `{"stock":1,"keeper":"holds","hold_seconds":5}`), &item)
	if h := s.hold(t, "short", "ann", 1); item.HoldSeconds != 5 || h.ExpiresAt.Sub(h.CreatedAt) != 5*time.Second {
		t.Errorf("the item is %+v, and the hold %+v", item, h)
	}
	for _, body := range []string{
		`{"stock":1,"keeper":"holds","hold_seconds":86401}`, `{"stock":1,"hold_seconds":5}`,
		`{"stock":1,"keeper":"holds","hold_seconds":"5s"}`,
	} {
		wantProblem(t, s.admin("PUT", "/api/items/short", body), http.StatusBadRequest, "invalid")
	}
}
