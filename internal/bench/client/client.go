// Package client sends requests to shops. It is not made for a burst of thousands of requests at
// once.
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
)

const (
	maxConnections = 256
	// maxReply is the maximum size of a reply in bytes. An order takes less than 400 bytes.
	maxReply = 400*stock.MaxOrders + 64<<10
	// deletePause is the pause between two tries to delete an item with open holds.
	deletePause = 100 * time.Millisecond
)

// Client sends requests to shops, without a proxy. Call CloseIdleConnections at the end.
type Client struct {
	http.Client
	Token string // of the shops, or ""
}

// New returns a client whose requests take at most the timeout.
func New(token string, timeout time.Duration) *Client {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: timeout / 2}).DialContext,
		MaxIdleConnsPerHost: maxConnections, DisableCompression: true,
	}
	return &Client{http.Client{Transport: transport, Timeout: timeout}, token}
}

// Request is a request to a shop.
type Request struct {
	Method, Path string
	Key          string // idempotency key, or ""
	Prefer       string // the Prefer header, or ""
	Body         any    // sent as JSON; nil: none
}

// Answer is the outcome of a request.
type Answer struct {
	Status int    // 0: the outcome is unknown
	Code   string // from a problem reply; without one, the status as text
	Header http.Header
	Text   []byte
	Err    error // why the outcome is unknown, or why the shop refused
}

// Unanswered reports whether the request should be sent again.
func (a Answer) Unanswered() bool { return a.Status == 0 || a.Status == http.StatusServiceUnavailable }

// Send sends a request once, to the shop at base. It reads the body of a success into v, unless v
// is nil.
func (c *Client) Send(ctx context.Context, base string, r Request, v any) Answer {
	a, err := c.exchange(ctx, base, r)
	if err == nil && a.Status/100 == 2 && v != nil {
		if err = json.Unmarshal(a.Text, v); err != nil {
			err = fmt.Errorf("it does not answer like a shop: %w", err)
		}
	}
	if err != nil {
		return Answer{Err: fmt.Errorf("%s %s%s: %w", r.Method, base, r.Path, err)}
	}
	if a.Status/100 == 2 {
		return a
	}
	a.Code = cmp.Or(Code(a.Text), strconv.Itoa(a.Status))
	said := string(bytes.TrimSpace(a.Text))
	if a.Status == http.StatusUnauthorized {
		said = "set -token to the token of the shop"
	}
	a.Err = fmt.Errorf("%s %s%s: %d %s: %s", r.Method, base, r.Path, a.Status, http.StatusText(a.Status), said)
	return a
}

// Code returns the code of a problem reply, or "" if it has none.
func Code(text []byte) string {
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(text, &problem) // the code stays empty if the reply is not a problem
	return problem.Code
}

// To returns r as an HTTP request to the shop at base, without a token.
func (r Request) To(base string) (*http.Request, error) {
	var content []byte
	if r.Body != nil {
		var err error
		if content, err = json.Marshal(r.Body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequest(r.Method, base+r.Path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if r.Body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{"Idempotency-Key": r.Key, "Prefer": r.Prefer} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

func (c *Client) exchange(ctx context.Context, base string, r Request) (a Answer, err error) {
	req, err := r.To(base)
	if err != nil {
		return a, err
	}
	req = req.WithContext(ctx)
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	return Answer{Status: res.StatusCode, Header: res.Header, Text: text}, err
}

// Patience says how to repeat a request that a shop answers with 503, which means that it cannot
// serve the request now.
type Patience struct {
	First, Last time.Duration // the pause between two tries grows from First to Last
	For         time.Duration // no try begins after this time
	Silent      bool          // the request is also repeated if no answer comes
}

// Shops sends requests to one shop, or to several in turn.
type Shops struct {
	*Client
	Base func() string // the address of the next shop
	Patience
}

// At returns a copy of s that asks only the shop at base.
func (s Shops) At(base string) Shops {
	s.Base = func() string { return base }
	return s
}

// Ask repeats a request until a shop answers it or the patience ends.
func (s Shops) Ask(ctx context.Context, r Request, v any) Answer {
	end := time.Now().Add(s.For)
	for pause := s.First; ; pause = min(2*pause, s.Last) {
		a := s.Send(ctx, s.Base(), r, v)
		again := a.Status == http.StatusServiceUnavailable || a.Status == 0 && s.Silent
		if !again || time.Now().Add(pause).After(end) || guard.Sleep(ctx, pause) != nil {
			return a
		}
	}
}

// must is like Ask, but returns an error unless the request succeeds.
func (s Shops) must(ctx context.Context, r Request, v any) error {
	a := s.Ask(ctx, r, v)
	if a.Err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return a.Err
}

// Put puts an item on sale. Requests that name no strategy buy under the given one, or under the
// shop's default if it is "".
func (s Shops) Put(ctx context.Context, sku string, units int64, keeper stock.Backend, strategy string) error {
	item := map[string]any{"stock": units, "name": "the bench's item", "keeper": keeper}
	if strategy != "" {
		item["strategy"] = strategy
	}
	return s.must(ctx, Request{Method: http.MethodPut, Path: "/api/items/" + sku, Body: item}, nil)
}

// Delete removes an item, once its last hold has ended.
func (s Shops) Delete(ctx context.Context, sku string) error {
	r := Request{Method: http.MethodDelete, Path: "/api/items/" + sku}
	for {
		a := s.Ask(ctx, r, nil)
		switch {
		case a.Status == http.StatusNotFound: // an earlier try deleted it and was answered with 503
			return nil
		case a.Code != "holds_open" || guard.Sleep(ctx, deletePause) != nil:
			return a.Err
		}
	}
}

// Audit reads the shop's audit of an item.
func (s Shops) Audit(ctx context.Context, sku string) (found web.Audit, err error) {
	err = s.must(ctx, Request{Method: http.MethodGet, Path: "/api/audit/" + sku}, &found)
	return found, err
}

// EachOrder calls f with each order of one sale of an item. It returns an error if the number of
// orders exceeds the limit.
func (s Shops) EachOrder(ctx context.Context, sku, saleID string, most int64, f func(stock.ListedOrder)) error {
	var n int64
	for after := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(stock.MaxOrders)}}
		if after != "" {
			query.Set("after", after)
		}
		var page stock.Orders
		path := "/api/audit/" + sku + "/orders?" + query.Encode()
		err := s.must(ctx, Request{Method: http.MethodGet, Path: path}, &page)
		n += int64(len(page.Orders))
		switch {
		case err != nil:
			return err
		case page.SaleID != saleID:
			return errors.New("another sale of the item has begun")
		case n > most:
			return fmt.Errorf("the shop lists at least %d orders, but there can be at most %d", n, most)
		case page.Next != "" && len(page.Orders) == 0:
			return errors.New("the shop lists an empty page that is not the last")
		}
		for _, o := range page.Orders {
			f(o)
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}
