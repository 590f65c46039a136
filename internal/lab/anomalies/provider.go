//go:build !js

package anomalies

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"oversell/internal/lab"
	"oversell/internal/payment"
)

// newProvider starts a payment provider and returns a client that calls it directly, without a
// network, so that it works in virtual time.
func newProvider() *payment.Client {
	server := payment.NewServer(payment.Config{Secret: []byte("of the lab"), Logger: slog.New(slog.DiscardHandler)})
	c, err := payment.NewClient(payment.ClientConfig{URL: "http://provider", Timeout: time.Minute,
		Transport: direct{server}})
	lab.Need(err == nil, "there is no client of the payment provider: %v", err)
	return c
}

type direct struct{ handler http.Handler }

// RoundTrip calls the handler. It returns an error if the handler breaks the connection.
func (d direct) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			resp, err = nil, errors.New("the connection breaks before the reply arrives")
		} else if p != nil {
			panic(p)
		}
	}()
	d.handler.ServeHTTP(w, r)
	resp = w.Result()
	resp.Request = r
	return resp, nil
}

// cashier is the client that a process uses to call the provider. The trace shows its calls.
type cashier struct {
	p *shop
	c *payment.Client
}

func (c cashier) Authorise(ctx context.Context, r payment.Request) (payment.Payment, error) {
	return c.call("provider: authorise %s → %s", r.Reference, func() (payment.Payment, error) {
		done, err := c.c.Authorise(ctx, r)
		if err == nil {
			c.p.s.namePayment(done)
		}
		return done, err
	})
}

func (c cashier) Capture(ctx context.Context, id, key string) (payment.Payment, error) {
	return c.call("provider: capture %s → %s", id, func() (payment.Payment, error) { return c.c.Capture(ctx, id, key) })
}

func (c cashier) Refund(ctx context.Context, id, key string) (payment.Payment, error) {
	c.p.w.Record(hasRefund, c.p.Name)
	return c.call("provider: refund %s → %s", id, func() (payment.Payment, error) { return c.c.Refund(ctx, id, key) })
}

func (c cashier) Payment(ctx context.Context, id string) (payment.Payment, error) {
	return c.call("provider: look up %s → %s", id, func() (payment.Payment, error) { return c.c.Payment(ctx, id) })
}

func (c cashier) Find(ctx context.Context, reference string) (found []payment.Payment, err error) {
	_, err = c.call("provider: find %s → %s", reference, func() (payment.Payment, error) {
		found, err = c.c.Find(ctx, reference)
		return payment.Payment{}, err
	})
	return found, err
}

// call calls the provider. The format makes the note in the trace of what was named and the outcome.
func (c cashier) call(format, named string, f func() (payment.Payment, error)) (payment.Payment, error) {
	if err := c.p.Life().Err(); err != nil {
		return payment.Payment{}, payment.ErrUnavailable
	}
	p, err := f()
	var outcome any = p.Status
	if err != nil {
		outcome = told(c.p.w, err)
	}
	c.p.w.Note(c.p.Name, format, c.p.w.Readable(named), outcome)
	return p, err
}

// namePayment sets the name of a payment in the trace: payment-1 for the first payment, and so on.
func (s *sale) namePayment(p payment.Payment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payments = append(s.payments, p.ID)
	s.w.NameKey(p.ID, "payment-"+string(rune('0'+len(s.payments))))
}

func (s *sale) lastPayment() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lab.Need(len(s.payments) > 0, "nothing was paid")
	return s.payments[len(s.payments)-1]
}

func (s *sale) books() payment.Books {
	ledger, err := s.client.Ledger(s.w.Context())
	lab.Need(err == nil, "the ledger could not be read: %v", err)
	var rows []struct {
		Payment string
		Orders  int
	}
	err = s.db.WithContext(s.w.Context()).Raw("SELECT idempotency_key AS payment, COUNT(*) AS orders FROM "+
		"oversell_orders WHERE sku = ? AND sale_id = ? AND idempotency_key IS NOT NULL GROUP BY idempotency_key",
		s.item.SKU, s.item.SaleID).Scan(&rows).Error
	lab.Need(err == nil, "the orders could not be read: %v", err)
	orders := make(map[string]int)
	for _, r := range rows {
		orders[r.Payment] = r.Orders
	}
	return payment.Audit(ledger, orders)
}
