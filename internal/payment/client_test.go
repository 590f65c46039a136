package payment

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A reply that makes no sense leads to ErrUnavailable, because the work may have been done.
func TestRepliesThatSayNothing(t *testing.T) {
	for name, reply := range map[string]http.HandlerFunc{
		"an error of a proxy": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		},
		"an unknown code": func(w http.ResponseWriter, _ *http.Request) {
			replyJSON(w, 418, problemBody{Error: problemText{Code: "teapot"}})
		},
		"a bug in the provider": func(w http.ResponseWriter, _ *http.Request) {
			replyError(w, errors.New("bug"), Payment{})
		},
		"nothing at all": func(http.ResponseWriter, *http.Request) {},
		"no payment":     func(w http.ResponseWriter, _ *http.Request) { replyJSON(w, 200, struct{}{}) },
		"no JSON":        func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
		"another place": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere/payments", http.StatusTemporaryRedirect)
		},
		"a body without end": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"id":"`+strings.Repeat("x", maxReply))
		},
		"a connection that ends": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"half a reply": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"id":"pay_1"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range []*Client{clientOf(t, reply), overHTTP(t, reply)} {
				p, err := c.Authorise(t.Context(), request("a"))
				if !errors.Is(err, ErrUnavailable) || p != (Payment{}) {
					t.Errorf("got %+v, %v; want ErrUnavailable", p, err)
				}
			}
		})
	}
}

// The client does not repeat a request by itself, not even when a reused connection breaks, because
// the caller must learn that the outcome is unknown.
func TestClientRepeatsNothingByItself(t *testing.T) {
	s := newServer(Config{})
	var captures atomic.Int64
	c := overHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/capture") {
			captures.Add(1)
		}
		s.ServeHTTP(w, r)
	}))
	p := authorised(t, c, "a") // opens the connection that the next call reuses
	must(t, s.faulty.set(Faults{LoseReplyTo: []string{OpCapture}}))
	expect(t, c, capture(p.ID, "c"), "", ErrUnavailable)
	if n := captures.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// A call ends when its context ends, or when the client's time limit is over.
func TestCallsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(Config{})
		must(t, s.faulty.set(Faults{ReplyDelay: maxFaultTime}))
		begin := time.Now()
		_, err := clientOf(t, s).Authorise(t.Context(), request("a"))
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(begin); d != DefaultTimeout {
			t.Errorf("the call took %v; want %v", d, DefaultTimeout)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begin = time.Now()
		_, err = clientOf(t, s).Authorise(ctx, request("b"))
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("the call took %v", d)
		}
	})
}

func TestNewClientRefusesWhatIsNoURL(t *testing.T) {
	for _, address := range []string{
		"", "127.0.0.1:8090", "provider", "ftp://provider", "http://", "http://provider/?key=1", "http://a b/",
	} {
		if _, err := NewClient(ClientConfig{URL: address}); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
}
