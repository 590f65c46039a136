package payment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Config configures a Server. Everything except the secret is optional.
type Config struct {
	Secret []byte // signs webhooks
	// Webhook is the URL for webhooks, such as http://127.0.0.1:8080/api/payments/webhook; "": none
	// are sent until PUT /webhook sets one.
	Webhook string
	Journal *Journal // the file with the Server's answers, old and new; nil: they are kept in memory only
	Client  *http.Client
	Logger  *slog.Logger

	// A webhook that is not accepted is sent again after RetryFrom. The pause doubles each time, up to
	// RetryMost, until Attempts is reached. The defaults are 200 ms, 15 s and 20, which is about four
	// minutes in all.
	RetryFrom, RetryMost time.Duration
	Attempts             int
}

func (c Config) withDefaults() Config {
	c.RetryFrom = cmp.Or(c.RetryFrom, 200*time.Millisecond)
	c.RetryMost = cmp.Or(c.RetryMost, 15*time.Second)
	c.Attempts = cmp.Or(c.Attempts, 20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Client = cmp.Or(c.Client, &http.Client{Transport: ownTransport(), CheckRedirect: noRedirect})
	return c
}

// ownTransport returns a transport that no other client uses.
func ownTransport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = maxSending
	return t
}

// noRedirect prevents redirects from being followed: a request about money must not go elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// Server is a payment provider that moves no money. Without a Journal it keeps everything in
// memory, and loses it when its process ends. With a Journal it still has its payments, its ledger
// and its idempotency keys after a crash, but not the webhooks that were not yet delivered. It is
// safe for concurrent use.
type Server struct {
	cfg     Config
	book    *book
	faulty  *faulty
	courier *courier
	handler http.Handler
}

// NewServer returns a provider with the payments of its Journal, and without faults. It sends
// webhooks only while Deliver is running.
func NewServer(cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults(), faulty: new(faulty)}
	s.courier = newCourier(s.cfg, s.faulty)
	s.book = newBook(cfg.Journal, s.courier.add)
	s.handler = s.routes()
	return s
}

// Deliver sends webhooks until ctx ends.
func (s *Server) Deliver(ctx context.Context) {
	s.courier.run(ctx)
	s.cfg.Client.CloseIdleConnections()
}

// SetWebhook sets the http or https URL for later webhooks. If it is "", events are dropped.
func (s *Server) SetWebhook(address string) error {
	if address != "" {
		if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%w: %.100q is not the URL of a webhook", ErrInvalid, address)
		}
	}
	s.courier.setAddress(address)
	return nil
}

// SetFaultsOf sets separate faults for the payments with the given reference. They replace the
// common faults, but their FailEvery is ignored. If f is nil, the common faults apply to these
// payments again. Separate faults are only removed by such a call.
func (s *Server) SetFaultsOf(reference string, f *Faults) error { return s.faulty.setOf(reference, f) }

// Group returns the ledger's entries for the payments of a group, the oldest first, and their
// number. If there are more than the given maximum, it returns only the number.
func (s *Server) Group(name string, most int) (entries []Entry, number int) {
	return s.book.group(name, most)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /payments", s.operation(OpAuthorise, s.authorise))
	mux.HandleFunc("POST /payments/{id}/capture", s.operation(OpCapture, func(r *http.Request) (Payment, error) {
		return s.book.capture(r.PathValue("id"), key(r))
	}))
	mux.HandleFunc("POST /payments/{id}/refund", s.operation(OpRefund, func(r *http.Request) (Payment, error) {
		return s.book.refund(r.PathValue("id"), key(r), s.faulty.refundFails)
	}))
	mux.HandleFunc("GET /payments/{id}", serve(func(r *http.Request) (Payment, error) {
		return s.book.payment(r.PathValue("id"))
	}))
	mux.HandleFunc("GET /payments", serve(s.find))
	mux.HandleFunc("GET /ledger", serve(s.ledger))
	mux.HandleFunc("GET /deliveries", serve(func(*http.Request) (Deliveries, error) {
		return s.courier.deliveries(), nil
	}))
	mux.HandleFunc("GET /faults", serve(func(*http.Request) (Faults, error) { return s.faulty.get(), nil }))
	mux.HandleFunc("PUT /faults", serve(s.putFaults))
	mux.HandleFunc("PUT /webhook", serve(s.putWebhook))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownName(r.Host) {
			replyJSON(w, http.StatusForbidden,
				problemBody{Error: problemText{"wrong_host", "this provider is not served under that name"}})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
		mux.ServeHTTP(w, r)
	})
}

// maxRequest is the maximum length of a request's body, in bytes.
const maxRequest = 4 << 10

// ownName reports whether the host of a request is an IP address, or a name without a dot such as
// localhost. This prevents DNS rebinding: a web site could point its own name at this server, and
// the visitor's browser would let it change the faults.
func ownName(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	_, err = netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || !strings.Contains(host, ".")
}

func key(r *http.Request) string { return r.Header.Get("Idempotency-Key") }

// operation answers a request that changes something, and applies the faults to its reply.
func (s *Server) operation(name string, work func(*http.Request) (Payment, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.faulty.fail() {
			replyError(w, fmt.Errorf("%w: it was told to fail", ErrUnavailable), Payment{})
			return
		}
		p, err := work(r)
		_, _ = io.Copy(io.Discard, r.Body) // without this, net/http does not notice that the client has left
		select {
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-time.After(s.faulty.replyDelay(p.Reference, name)):
		}
		if err == nil && s.faulty.loseReply(p.Reference, name) {
			panic(http.ErrAbortHandler) // closes the connection without a reply
		}
		if err != nil {
			replyError(w, err, p)
			return
		}
		replyJSON(w, http.StatusOK, p)
	}
}

func (s *Server) authorise(r *http.Request) (Payment, error) {
	var request Request
	if err := read(r, &request); err != nil {
		return Payment{}, err
	}
	request.Key = key(r)
	return s.book.authorise(request, s.faulty.decline)
}

// serve answers a request with the result of work, or with its error.
func serve[T any](work func(*http.Request) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := work(r)
		if err != nil {
			replyError(w, err, Payment{})
			return
		}
		replyJSON(w, http.StatusOK, v)
	}
}

func (s *Server) find(r *http.Request) (foundBody, error) {
	reference := r.URL.Query().Get("reference")
	if !printable(reference, maxReference) {
		return foundBody{}, fmt.Errorf("%w: the reference must be 1 to %d printable ASCII characters",
			ErrInvalid, maxReference)
	}
	return foundBody{s.book.find(reference, ledgerPage)}, nil
}

// ledgerPage is the maximum number of entries in one page of the ledger.
const ledgerPage = 1000

func (s *Server) ledger(r *http.Request) (ledgerBody, error) {
	after, err := strconv.ParseInt(cmp.Or(r.URL.Query().Get("after"), "0"), 10, 64)
	if err != nil || after < 0 {
		return ledgerBody{}, fmt.Errorf("%w: after must be the number of an entry", ErrInvalid)
	}
	page := ledgerBody{Entries: s.book.entries(after, ledgerPage)}
	if n := len(page.Entries); n == ledgerPage {
		page.Next = page.Entries[n-1].Number
	}
	return page, nil
}

func (s *Server) putFaults(r *http.Request) (faults Faults, err error) {
	if err = read(r, &faults); err == nil {
		err = s.faulty.set(faults)
	}
	if err == nil {
		text, _ := json.Marshal(faults) // encoding numbers and strings cannot fail
		s.cfg.Logger.Info("faults are set", "faults", string(text))
	}
	return faults, err
}

func (s *Server) putWebhook(r *http.Request) (body webhookBody, err error) {
	if err = read(r, &body); err == nil {
		err = s.SetWebhook(body.URL)
	}
	return body, err
}

// read decodes the body of a request into v. The body must be one JSON object with only fields of
// v.
func read(r *http.Request, v any) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("%w: reading the body: %w", ErrInvalid, err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: the body is not what this request needs: %w", ErrInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: there is more data after the JSON object", ErrInvalid)
	}
	return nil
}
