package payment

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// DefaultTimeout is the default time limit of one call to a Client.
const DefaultTimeout = 10 * time.Second

// maxReply is the maximum number of bytes that a Client reads of one reply. The largest reply is a
// page of the ledger.
const maxReply = 1 << 20

// Client is a Provider over HTTP. It does not repeat calls: after ErrUnavailable the caller decides
// when to repeat the call, with the same key. It is safe for concurrent use.
type Client struct {
	base string
	http *http.Client
}

var _ Provider = (*Client)(nil)

// ClientConfig configures a Client.
type ClientConfig struct {
	URL       string            // the URL of the provider, such as http://127.0.0.1:8090
	Timeout   time.Duration     // the time limit of one call; default DefaultTimeout
	Transport http.RoundTripper // default: a transport that only this client uses
}

var errURL = errors.New("not the URL of a payment provider, such as http://127.0.0.1:8090: it must begin with " +
	"http:// or https:// and have no query")

// NewClient returns a client. It does not connect yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" {
		return nil, errURL // without the URL, which may contain a password
	}
	if cfg.Transport == nil {
		cfg.Transport = ownTransport()
	}
	return &Client{
		base: strings.TrimSuffix(cfg.URL, "/"),
		http: &http.Client{Transport: cfg.Transport, Timeout: cmp.Or(cfg.Timeout, DefaultTimeout),
			CheckRedirect: noRedirect},
	}, nil
}

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Authorise implements Provider.
func (c *Client) Authorise(ctx context.Context, r Request) (Payment, error) {
	return c.operation(ctx, "authorising a payment for "+r.Reference, "/payments", r.Key, r)
}

// Capture implements Provider.
func (c *Client) Capture(ctx context.Context, paymentID, key string) (Payment, error) {
	return c.change(ctx, "capturing", paymentID, "/capture", key)
}

// Refund implements Provider.
func (c *Client) Refund(ctx context.Context, paymentID, key string) (Payment, error) {
	return c.change(ctx, "refunding", paymentID, "/refund", key)
}

// Payment implements Provider.
func (c *Client) Payment(ctx context.Context, id string) (Payment, error) {
	if !paymentID.MatchString(id) {
		return Payment{}, fmt.Errorf("reading the payment %.100q: %w", id, ErrUnknownPayment)
	}
	var p Payment
	if err := c.do(ctx, http.MethodGet, "/payments/"+id, "", nil, &p); err != nil {
		return Payment{}, fmt.Errorf("reading the payment %s: %w", id, err)
	}
	return p, nil
}

// Find implements Provider.
func (c *Client) Find(ctx context.Context, reference string) ([]Payment, error) {
	var found foundBody
	if err := c.do(ctx, http.MethodGet, "/payments?reference="+url.QueryEscape(reference), "", nil,
		&found); err != nil {
		return nil, fmt.Errorf("finding the payments for %s: %w", reference, err)
	}
	if found.Payments == nil {
		return nil, fmt.Errorf("finding the payments for %s: %w: the reply has no payments", reference, ErrUnavailable)
	}
	return found.Payments, nil
}

// Ledger returns the whole ledger of a Server, the oldest entry first.
func (c *Client) Ledger(ctx context.Context) ([]Entry, error) {
	var all []Entry
	for after := int64(0); ; {
		var page ledgerBody
		if err := c.do(ctx, http.MethodGet, "/ledger?after="+strconv.FormatInt(after, 10), "", nil, &page); err != nil {
			return nil, fmt.Errorf("reading the ledger of the payments: %w", err)
		}
		all = append(all, page.Entries...)
		if page.Next <= after {
			return all, nil
		}
		after = page.Next
	}
}

// Deliveries returns the delivery counts of a Server's webhooks.
func (c *Client) Deliveries(ctx context.Context) (Deliveries, error) {
	var d Deliveries
	if err := c.do(ctx, http.MethodGet, "/deliveries", "", nil, &d); err != nil {
		return Deliveries{}, fmt.Errorf("reading what became of the webhooks: %w", err)
	}
	return d, nil
}

// SetFaults replaces the faults of a Server.
func (c *Client) SetFaults(ctx context.Context, f Faults) error {
	if err := c.do(ctx, http.MethodPut, "/faults", "", f, nil); err != nil {
		return fmt.Errorf("setting the faults of the payment provider: %w", err)
	}
	return nil
}

func (c *Client) change(ctx context.Context, what, id, path, key string) (Payment, error) {
	if !paymentID.MatchString(id) {
		return Payment{}, fmt.Errorf("%s the payment %.100q: %w", what, id, ErrUnknownPayment)
	}
	return c.operation(ctx, what+" the payment "+id, "/payments/"+id+path, key, struct{}{})
}

// operation sends a request that changes something. If an error concerns a payment, operation also
// returns the payment.
func (c *Client) operation(ctx context.Context, what, path, key string, body any) (Payment, error) {
	if err := checkKey(key); err != nil {
		return Payment{}, fmt.Errorf("%s: %w", what, err)
	}
	var p Payment
	err := c.do(ctx, http.MethodPost, path, key, body, &p)
	if err != nil {
		return p, fmt.Errorf("%s: %w", what, err)
	}
	if p.ID == "" {
		return Payment{}, fmt.Errorf("%s: %w: the reply has no payment", what, ErrUnavailable)
	}
	return p, nil
}

// do sends one request. It decodes the reply into result, unless result is nil.
func (c *Client) do(ctx context.Context, method, path, key string, body, result any) error {
	req, err := c.request(ctx, method, path, key, body)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	if err != nil {
		return fmt.Errorf("%w: reading the reply: %w", ErrUnavailable, err)
	}
	if len(text) > maxReply {
		return fmt.Errorf("%w: the reply has more than %d bytes", ErrUnavailable, maxReply)
	}
	if res.StatusCode != http.StatusOK {
		return refusal(res.Status, text, result)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("%w: reading the reply: %w", ErrUnavailable, err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path, key string, body any) (*http.Request, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, fmt.Errorf("making the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	// If a request has an Idempotency-Key, net/http retries it by itself when a connection breaks.
	// Here the caller decides: without GetBody, net/http cannot retry.
	req.GetBody = nil
	return req, nil
}

// refusal returns the error of a reply whose status is not 200. If the reply has the payment that
// the error concerns, and result is a *Payment, refusal stores the payment in result.
func refusal(status string, text []byte, result any) error {
	var body problemBody
	if err := json.Unmarshal(text, &body); err == nil {
		if p, ok := result.(*Payment); ok && body.Payment != nil {
			*p = *body.Payment
		}
		if err := body.Error.err(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: it answered %s", ErrUnavailable, status)
}

// told is an error that the provider has reported, with the text of its reply.
type told struct {
	kind error
	text string
}

func (t told) Error() string { return cmp.Or(t.text, t.kind.Error()) }
func (t told) Unwrap() error { return t.kind }
