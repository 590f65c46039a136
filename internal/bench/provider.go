package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"oversell/internal/payment"
)

// provider is the payment provider of a sale by holds, which this process serves.
type provider struct {
	*payment.Client
	url     string
	secret  []byte // signs webhooks
	end     context.CancelFunc
	serving sync.WaitGroup
}

// webhookConnections is the maximum number of idle connections from the provider to each shop.
const webhookConnections = 64

// A webhook that was not accepted is sent again after retryFrom. The pause doubles each time, up to
// retryMost.
const (
	retryFrom = 100 * time.Millisecond
	retryMost = 2 * time.Second
)

// serveProvider serves a payment provider, whose webhooks go to each shop in turn.
func serveProvider(f *shops) (*provider, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for payments: %w", err)
	}
	p := &provider{url: "http://" + l.Addr().String(), secret: []byte(rand.Text())}
	if p.Client, err = payment.NewClient(payment.ClientConfig{URL: p.url}); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	server := payment.NewServer(payment.Config{
		Secret: p.secret, Webhook: "http://shops/api/payments/webhook", RetryFrom: retryFrom, RetryMost: retryMost,
		Client: &http.Client{Transport: &toShops{f, http.Transport{MaxIdleConnsPerHost: webhookConnections}}},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), // the books show what went wrong
	})
	var serving context.Context
	serving, p.end = context.WithCancel(context.Background())
	p.serving.Go(func() {
		if err := server.Serve(serving, l); err != nil {
			_ = l.Close() // the shops get no answers any more, and the rows show that
		}
	})
	return p, nil
}

// toShops sends requests to the shops in turn. The provider tries again if a shop was killed.
type toShops struct {
	shops *shops
	http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *toShops) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(t.shops.next())
	if err != nil {
		return nil, err // impossible: it is the address of a listener
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host, r.Host = to.Scheme, to.Host, to.Host
	return t.Transport.RoundTrip(r)
}

// close ends the provider, after the shops have ended.
func (p *provider) close() {
	p.Client.Close()
	p.end()
	p.serving.Wait()
}
