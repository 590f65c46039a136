package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"oversell/internal/holds"
	"oversell/internal/payment"
)

// call sends a request to the shop, and reads the reply into v.
func (p *program) call(t *testing.T, method, path, body string, v any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+p.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s %s: %s: %v", method, path, text, err)
	}
	return res.StatusCode
}

// buySeat puts a seat on sale, holds it and pays for it.
func (p *program) buySeat(t *testing.T) (h holds.Hold, o holds.Order) {
	t.Helper()
	if code := p.call(t, "PUT", "/api/items/seat", `{"stock":1,"keeper":"holds"}`, new(any)); code != http.StatusOK {
		t.Fatalf("putting it on sale: %d", code)
	}
	if code := p.call(t, "POST", "/api/items/seat/holds", `{"buyer":"ann","quantity":1}`, &h); code != http.StatusCreated {
		t.Fatalf("holding: %d", code)
	}
	if code := p.call(t, "POST", "/api/holds/"+h.ID+"/pay", fmt.Sprintf(`{"token":%d}`, h.Token), &o); code != http.StatusOK || o.ID != h.ID || o.PaymentID == "" {
		t.Fatalf("paying: %d, %+v", code, o)
	}
	return h, o
}

// settled waits for a webhook that the shop has accepted.
func (p *program) settled(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		res, err := http.Get("http://" + p.addr + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte(`oversell_requests_total{outcome="settled",strategy="webhook"} 1`)) {
			return
		}
	}
	t.Error("no webhook was settled in a minute")
}

// A shop without any flags has a payment provider of its own, whose webhooks it accepts, on
// whatever address it listens.
func TestShopHasAProviderOfItsOwn(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", ":0"} {
		p := start(t, "-addr", addr, "-hold-ttl", "1m")
		h, _ := p.buySeat(t)
		if left := time.Until(h.ExpiresAt); left < 0 || left > time.Minute {
			t.Errorf("the hold runs out in %v", left)
		}
		p.settled(t)
		p.stop()
		if code := <-p.code; code != exitOK {
			t.Errorf("exit code %d, %s", code, &p.stderr)
		}
	}
}

// A shop pays at the provider that -provider names, and accepts the webhooks that the secret in
// -webhook-secret-file has signed.
func TestShopPaysAtTheProviderItIsGiven(t *testing.T) {
	const secret = "the secret of this test"
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	provider := payment.NewServer(payment.Config{Secret: []byte(secret)})
	ctx, stop := context.WithCancel(t.Context())
	var delivering sync.WaitGroup
	defer func() { stop(); delivering.Wait() }()
	server := httptest.NewServer(provider)
	defer server.Close()
	p := start(t, "-provider", server.URL, "-webhook-secret-file", file, "-hold-limit", "1")
	if err := provider.SetWebhook("http://" + p.addr + "/api/payments/webhook"); err != nil {
		t.Fatal(err)
	}
	delivering.Go(func() { provider.Deliver(ctx) })
	_, o := p.buySeat(t)
	c, err := payment.NewClient(payment.ClientConfig{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if paid, err := c.Payment(t.Context(), o.PaymentID); err != nil || paid.Status != payment.Captured {
		t.Errorf("the payment is %+v, %v", paid, err)
	}
	p.settled(t)
	var refused struct{ Code string }
	if code := p.call(t, "PUT", "/api/items/seat", `{"stock":5,"keeper":"holds"}`, new(any)); code != http.StatusOK {
		t.Fatalf("putting it on sale again: %d", code)
	}
	if code := p.call(t, "POST", "/api/items/seat/holds", `{"buyer":"ann","quantity":2}`, &refused); code != http.StatusConflict || refused.Code != "limit_reached" {
		t.Errorf("two units: %d, %+v", code, refused)
	}
	p.stop()
	if code := <-p.code; code != exitOK {
		t.Errorf("exit code %d, %s", code, &p.stderr)
	}
}

// A payment waits for the provider at which it began. If that has moved, a shop that has its old
// URL as its name settles the payment.
func TestShopSettlesPaymentsOfAProviderThatHasMoved(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("the secret of this test"), 0o600); err != nil {
		t.Fatal(err)
	}
	provider := payment.NewServer(payment.Config{Secret: []byte("the secret of this test")})
	before, after := httptest.NewServer(provider), httptest.NewServer(provider)
	defer before.Close()
	defer after.Close()
	faults, err := payment.NewClient(payment.ClientConfig{URL: after.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer faults.Close()
	set := func(f payment.Faults) {
		if err := faults.SetFaults(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	open := func(at *httptest.Server, more ...string) *program {
		return start(t, append([]string{"-db", "sqlite:" + file + ".db", "-hold-settle", "1s", "-provider", at.URL, "-webhook-secret-file", file}, more...)...)
	}
	closed := func(p *program) {
		p.stop()
		if code := <-p.code; code != exitOK {
			t.Errorf("exit code %d, %s", code, &p.stderr)
		}
	}

	p := open(before)
	var h holds.Hold
	p.call(t, "PUT", "/api/items/seat", `{"stock":1,"keeper":"holds"}`, new(any))
	p.call(t, "POST", "/api/items/seat/holds", `{"buyer":"ann","quantity":1}`, &h)
	set(payment.Faults{LoseReplyTo: []string{"capture"}})
	var refused struct{ Code string }
	if code := p.call(t, "POST", "/api/holds/"+h.ID+"/pay", fmt.Sprintf(`{"token":%d}`, h.Token), &refused); code != http.StatusServiceUnavailable || refused.Code != "payment_pending" {
		t.Fatalf("paying: %d, %+v", code, refused)
	}
	before.Close() // or this shop might settle the payment
	closed(p)
	set(payment.Faults{})

	p = open(after, "-provider-name", before.URL)
	var o holds.Order
	for deadline := time.Now().Add(time.Minute); o.PaymentID == "" && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		o = holds.Order{}
		p.call(t, "GET", "/api/orders/"+h.ID, "", &o)
	}
	if o.PaymentID == "" {
		t.Error("the payment was not settled in a minute")
	}
	closed(p)
}

func TestShopWithoutAProviderSellsNothingByHolds(t *testing.T) {
	p := start(t, "-provider", "none")
	var h holds.Hold
	p.call(t, "PUT", "/api/items/seat", `{"stock":1,"keeper":"holds"}`, new(any))
	p.call(t, "POST", "/api/items/seat/holds", `{"buyer":"ann","quantity":1}`, &h)
	var refused struct{ Code string }
	if code := p.call(t, "POST", "/api/holds/"+h.ID+"/pay", fmt.Sprintf(`{"token":%d}`, h.Token), &refused); code != http.StatusServiceUnavailable || refused.Code != "no_payments" {
		t.Errorf("paying: %d, %+v", code, refused)
	}
	p.stop()
	<-p.code
}
