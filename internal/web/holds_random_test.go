package web_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"oversell/internal/holds"
	"oversell/internal/payment"
)

// badRequests makes requests and webhooks each of which has something wrong with it.
type badRequests struct {
	nonsense
	sku   string
	holds []holds.Hold      // some held, one paid, one released
	known []payment.Payment // some captured, one only authorised
}

// request is one of them.
type badRequest struct {
	what, method, path, query, body string
	header                          http.Header
}

func (b badRequests) next() badRequest {
	r := []func() badRequest{b.hold, b.pay, b.release, b.read, b.unsigned, b.stale, b.changed, b.signedNonsense, b.otherHold}[b.IntN(9)]()
	if r.header == nil {
		r.header = make(http.Header)
	}
	if r.header.Get(payment.SignatureHeader) == "" && b.IntN(3) == 0 {
		r.header["Idempotency-Key"] = []string{b.pick("k", "", "a b", b.bytes(200))}
	}
	return r
}

// anyHold is one of the holds, by its id, or something like one.
func (b badRequests) anyHold() string {
	h := b.holds[b.IntN(len(b.holds))].ID
	return b.pick(h, h[:b.IntN(len(h))], h+b.bytes(3), "h3-"+b.bytes(30), "h1-0", "h9-"+h, "..", "%", "'; DROP TABLE oversell_holds; --", strings.ToUpper(h))
}

// number is none that a buyer could mean.
func (b badRequests) number() string {
	return b.pick("0", "-1", "1001", "1.5", "1e400", "99999999999999999999", "9223372036854775807", "-9223372036854775808", "null", "true", `"1"`, "[1]", "{}", "")
}

func (b badRequests) hold() badRequest {
	buyer := b.pick(`"ann"`, `""`, `"a b"`, `"é"`, "1", "null", `"`+strings.Repeat("x", 65)+`"`, `"`+strings.Repeat("x", 5000)+`"`)
	return badRequest{
		what: "a hold that cannot be", method: b.pick("POST", "POST", "PUT", "GET"), path: "/api/items/" + b.pick(b.sku, b.bytes(70)) + "/holds",
		query: b.pick("", "strategy=h3_claim", "strategy=h2_status", "strategy="+url.QueryEscape(b.bytes(9)), "ttl=1h", "%"),
		body:  b.pick(fmt.Sprintf(`{"buyer":%s,"quantity":%s}`, buyer, b.number()), b.body(), `{"buyer":"ann"`, `{"buyer":"ann","buyer":"bob","quantity":1}`),
	}
}

func (b badRequests) pay() badRequest {
	return badRequest{
		what: "a payment that cannot be", method: "POST", path: "/api/holds/" + b.anyHold() + "/pay", query: b.pick("", "", "token=1"),
		body: b.pick(fmt.Sprintf(`{"token":%s}`, b.number()), fmt.Sprintf(`{"token":%d}`, 1<<40+b.Int64N(1<<20)), b.body(), `{"token":1`),
	}
}

func (b badRequests) release() badRequest {
	token := b.pick("0", "-1", "x", "", "1e1", "99999999999999999999", "9223372036854775807", b.bytes(9))
	return badRequest{what: "a release that cannot be", method: "DELETE", path: "/api/holds/" + b.anyHold(), query: b.pick("token="+url.QueryEscape(token), "", "token=1&token=2")}
}

func (b badRequests) read() badRequest {
	return badRequest{what: "a question", method: b.pick("GET", "HEAD", "PATCH"), path: b.pick("/api/holds/", "/api/orders/") + b.anyHold(), query: b.pick("", "x=1")}
}

// captured is the body of a webhook that says that a payment was captured.
func (b badRequests) captured() string {
	return event(b.known[b.IntN(len(b.known))], payment.EventCaptured)
}

func signedWebhook(what, body, signature string) badRequest {
	return badRequest{what: what, method: "POST", path: "/api/payments/webhook", body: body, header: http.Header{payment.SignatureHeader: {signature}}}
}

func (b badRequests) unsigned() badRequest {
	body := b.captured()
	real := payment.Sign([]byte(webhookSecret), []byte(body), time.Now())
	return signedWebhook("a wrong signature", body, b.pick(
		payment.Sign([]byte("another"), []byte(body), time.Now()), real[:len(real)-1-b.IntN(60)], strings.ToUpper(real[:5])+real[5:],
		"t=0,"+real, strings.Replace(real, "v1", "v0", 1), b.bytes(100), strings.Repeat("v1=00,", b.IntN(400)),
	))
}

// stale is a webhook that somebody recorded, or one from a provider whose clock is wrong.
func (b badRequests) stale() badRequest {
	body := b.captured()
	off := payment.Tolerance + time.Hour + time.Duration(b.Int64N(int64(1000*time.Hour)))
	at := time.Now().Add(-off)
	if b.IntN(2) == 0 {
		at = time.Now().Add(off)
	}
	return signedWebhook("a time that is not now", body, payment.Sign([]byte(webhookSecret), []byte(body), at))
}

// changed is a webhook whose body was changed, or cut off, on its way.
func (b badRequests) changed() badRequest {
	body := b.captured()
	signature := payment.Sign([]byte(webhookSecret), []byte(body), time.Now())
	at := b.IntN(len(body))
	return signedWebhook("another body", b.pick(body[:at], body[:at]+"0"+body[at:], body+body, body+strings.Repeat(" ", b.IntN(9000)+1)), signature)
}

// signedNonsense is signed by the provider, and no event: its secret is known to a program
// with a bug.
func (b badRequests) signedNonsense() badRequest {
	body := b.captured()
	body = b.pick(b.body(), strings.Replace(body, "1000", b.number(), 1), strings.Replace(body, "EUR", "euro", 1), strings.Replace(body, "pay_", "\xff", 1), body[:b.IntN(len(body))])
	return signedWebhook("a signed nonsense", body, payment.Sign([]byte(webhookSecret), []byte(body), time.Now()))
}

// otherHold is signed by the provider, and says something of a payment that is not so.
func (b badRequests) otherHold() badRequest {
	p := b.known[b.IntN(len(b.known))]
	h := b.holds[b.IntN(len(b.holds))]
	p.Reference = b.pick(fmt.Sprintf("%s/%d", h.ID, h.Token), h.ID, "h3-0/1", "x")
	p.ID = b.pick(p.ID, p.ID, "pay_0", "../faults")
	p.Amount = 1 + b.Int64N(payment.MaxAmount)
	kind := payment.EventType(b.pick("payment.captured", "payment.captured", "payment.refunded", "payment.unheard-of"))
	body := event(p, kind)
	return signedWebhook("a webhook for another hold", body, payment.Sign([]byte(webhookSecret), []byte(body), time.Now()))
}

// send sends the request and returns what is wrong with the reply, if anything.
func (s *holdSite) send(r badRequest) error {
	req := httptest.NewRequest(r.method, "/", strings.NewReader(r.body))
	req.URL.Path, req.URL.RawQuery = r.path, r.query
	for name, values := range r.header {
		req.Header[name] = values
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	switch {
	case w.Code >= 500:
		return fmt.Errorf("%d %s", w.Code, w.Body)
	case w.Code >= 400 && r.method != http.MethodHead:
		return checkProblem(w)
	case w.Code == http.StatusCreated:
		return fmt.Errorf("a hold was made: %s", w.Body)
	}
	return nil
}

// Ten thousand requests and webhooks with something wrong in them: wrong, old and stolen
// signatures, cut-off bodies, huge numbers, webhooks for other holds. None is answered with a
// 5xx, and nothing is held, bought, released or refunded.
func TestMalformedHoldsAndWebhooksChangeNothing(t *testing.T) {
	s := embeddedHoldSite(t, holds.Config{})
	sku := s.sell(t, 100)
	b := badRequests{nonsense: nonsense{rand.New(rand.NewPCG(7, 13))}, sku: sku}
	b.holds = []holds.Hold{s.hold(t, sku, "ann", 1), s.hold(t, sku, "bob", 2), s.hold(t, sku, "cem", 1), s.hold(t, sku, "dan", 1)}
	var order holds.Order
	read(t, s.pay(b.holds[2], "key"), &order)
	if w := s.ask("DELETE", fmt.Sprintf("/api/holds/%s?token=%d", b.holds[3].ID, b.holds[3].Token), ""); w.Code != http.StatusNoContent {
		t.Fatalf("releasing: %d %s", w.Code, w.Body)
	}
	bought, err := s.paid.Payment(t.Context(), order.PaymentID)
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := s.paid.Authorise(t.Context(), payment.Request{
		Key: "waiting", Reference: fmt.Sprintf("%s/%d", b.holds[0].ID, b.holds[0].Token), Amount: 1000, Currency: "EUR",
	})
	if err != nil {
		t.Fatal(err)
	}
	foreign := s.capture(t, "an-order-of-another-shop")
	b.known = []payment.Payment{bought, waiting, foreign}
	before := s.state(t, sku, b.holds)
	replies := make(map[string]int)
	for range 10_000 {
		r := b.next()
		replies[r.what]++
		if err := s.send(r); err != nil {
			t.Errorf("%s: %s %q ? %q with %.200q and %q: %v", r.what, r.method, r.path, r.query, r.body, r.header, err)
		}
	}
	if after := s.state(t, sku, b.holds); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	s.wantBooks(t, sku, 1, 3, payment.Books{Authorised: 3, Captured: 2, ChargedWithoutOrder: 1, Wrong: accounts(foreign)})
	if len(replies) != 9 {
		t.Errorf("not every kind was sent: %v", replies)
	}
}

// state is all that the requests could have changed.
func (s *holdSite) state(t testing.TB, sku string, all []holds.Hold) string {
	t.Helper()
	var b strings.Builder
	for _, h := range all {
		read(t, s.ask("GET", "/api/holds/"+h.ID, ""), &h)
		fmt.Fprintf(&b, "%+v\n", h)
	}
	audit, err := s.stock.Audit(t.Context(), sku)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "%+v\n", audit)
	ledger, err := s.paid.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&b).Encode(ledger); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
