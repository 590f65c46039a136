package payment

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inMemory is a transport that calls a handler without a network, so that it works in virtual time.
// If the handler aborts, the client gets the error of a broken connection.
type inMemory struct{ http.Handler }

var errBroken = errors.New("the connection broke")

func (m inMemory) RoundTrip(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			res, err = nil, cmp.Or(r.Context().Err(), errBroken)
		} else if p != nil {
			panic(p)
		}
	}()
	served := r.Clone(r.Context())
	served.RequestURI, served.Host = r.URL.RequestURI(), r.URL.Host
	if served.Body == nil {
		served.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	m.ServeHTTP(w, served)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// newServer returns a provider that logs nothing.
func newServer(cfg Config) *Server {
	cfg.Secret, cfg.Logger = secret, quiet
	return NewServer(cfg)
}

// clientOf returns a client that calls a handler without a network.
func clientOf(t *testing.T, h http.Handler) *Client {
	t.Helper()
	c, err := NewClient(ClientConfig{URL: "http://provider", Transport: inMemory{h}})
	must(t, err)
	return c
}

// overHTTP returns a client that calls a handler over a real connection.
func overHTTP(t *testing.T, h http.Handler) *Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	c, err := NewClient(ClientConfig{URL: server.URL, Timeout: time.Hour})
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// request returns a valid payment request with this key.
func request(key string) Request {
	return Request{Key: key, Reference: "hold-" + key, Amount: 1250, Currency: "EUR"}
}

// authorised authorises a payment, which can then be captured.
func authorised(t *testing.T, p Provider, key string) Payment {
	t.Helper()
	got, err := p.Authorise(t.Context(), request(key))
	if err != nil || got.Status != Authorised {
		t.Fatalf("authorising: %+v, %v", got, err)
	}
	return got
}
