package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"oversell/internal/holds"
	"oversell/internal/payment"
)

// buySeat puts a seat on sale, holds it, and pays for it.
func (p *program) buySeat(t *testing.T) (h holds.Hold, o holds.Order) {
	t.Helper()
	if code := p.call(t, "PUT", "/api/items/seat", `{"stock":1,"keeper":"holds"}`, new(any)); code != http.StatusOK {
		t.Fatalf("putting it on sale: %d", code)
	}
	code := p.call(t, "POST", "/api/items/seat/holds", `{"buyer":"ann","quantity":1}`, &h)
	if code != http.StatusCreated {
		t.Fatalf("holding: %d", code)
	}
	code = p.call(t, "POST", "/api/holds/"+h.ID+"/pay", fmt.Sprintf(`{"token":%d}`, h.Token), &o)
	if code != http.StatusOK || o.ID != h.ID || o.PaymentID == "" {
		t.Fatalf("paying: %d, %+v", code, o)
	}
	return h, o
}

// settled waits until the shop has accepted a webhook.
func (p *program) settled(t *testing.T) {
	t.Helper()
	for ; ; time.Sleep(5 * time.Millisecond) { // until the test times out
		res, err := http.Get("http://" + p.addr + "/metrics")
		must(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		must(t, err)
		if bytes.Contains(text, []byte(`oversell_requests_total{outcome="settled",strategy="webhook"} 1`)) {
			return
		}
	}
}

// A shop without flags has an embedded payment provider, and accepts its webhooks on every address
// that the shop may listen on.
func TestShopHasAProviderOfItsOwn(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", ":0"} {
		p := start(t, "-addr", addr, "-hold-ttl", "1m")
		h, _ := p.buySeat(t)
		if held := h.ExpiresAt.Sub(h.CreatedAt); held != time.Minute {
			t.Errorf("the hold runs out after %v", held)
		}
		p.settled(t)
		p.end(t)
	}
}

// A shop uses the provider that -provider names, and accepts webhooks that are signed with the
// secret in -webhook-secret-file.
func TestShopPaysAtTheProviderItIsGiven(t *testing.T) {
	const secret = "the secret of this test"
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	provider := payment.NewServer(payment.Config{Secret: []byte(secret)})
	ctx, stop := context.WithCancel(t.Context())
	var delivering sync.WaitGroup
	defer func() { stop(); delivering.Wait() }()
	server := httptest.NewServer(provider)
	defer server.Close()
	p := start(t, "-provider", server.URL, "-webhook-secret-file", file, "-hold-limit", "1")
	must(t, provider.SetWebhook("http://"+p.addr+"/api/payments/webhook"))
	delivering.Go(func() { provider.Deliver(ctx) })
	_, o := p.buySeat(t)
	c, err := payment.NewClient(payment.ClientConfig{URL: server.URL})
	must(t, err)
	defer c.Close()
	if paid, err := c.Payment(t.Context(), o.PaymentID); err != nil || paid.Status != payment.Captured {
		t.Errorf("the payment is %+v, %v", paid, err)
	}
	p.settled(t)
	var refused struct{ Code string }
	if code := p.call(t, "PUT", "/api/items/seat", `{"stock":5,"keeper":"holds"}`, new(any)); code != http.StatusOK {
		t.Fatalf("putting it on sale again: %d", code)
	}
	code := p.call(t, "POST", "/api/items/seat/holds", `{"buyer":"ann","quantity":2}`, &refused)
	if code != http.StatusConflict || refused.Code != "limit_reached" {
		t.Errorf("two units: %d, %+v", code, refused)
	}
	p.end(t)
}

func TestShopWithoutAProviderSellsNothingByHolds(t *testing.T) {
	p := start(t, "-provider", "none")
	var h holds.Hold
	p.call(t, "PUT", "/api/items/seat", `{"stock":1,"keeper":"holds"}`, new(any))
	p.call(t, "POST", "/api/items/seat/holds", `{"buyer":"ann","quantity":1}`, &h)
	var refused struct{ Code string }
	code := p.call(t, "POST", "/api/holds/"+h.ID+"/pay", fmt.Sprintf(`{"token":%d}`, h.Token), &refused)
	if code != http.StatusServiceUnavailable || refused.Code != "no_payments" {
		t.Errorf("paying: %d, %+v", code, refused)
	}
	p.end(t)
}
