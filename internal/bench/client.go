package bench

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

	"oversell/internal/bench/report"
	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
)

const (
	// maxAnswer is the maximum size of an answer in bytes. An order takes less than 400 bytes.
	maxAnswer = 400*stock.MaxOrders + maxReply
	// maxSaid is the maximum size of a refusal in an error, in bytes: something else than a shop may
	// answer with a long page.
	maxSaid = 500
	// deletePause is the pause between two tries to delete an item with open holds.
	deletePause = 100 * time.Millisecond
)

// client sends requests to one shop, or to several in turn, without a proxy. It is not made for a
// burst of thousands of requests at once. Call CloseIdleConnections at the end.
type client struct {
	http.Client
	token string        // of the shops, or ""
	base  func() string // the address of the next shop

	// A shop answers with 503 if it cannot serve a request now. The request is then repeated.
	first, last time.Duration // the pause between two tries grows from first to last
	limit       time.Duration // of the time from the first try to the beginning of the last
	silent      bool          // the request is also repeated if no answer comes
}

// newClient returns a client whose requests take at most the timeout.
func newClient(token string, timeout time.Duration) client {
	transport := &http.Transport{
		DialContext:         (&net.Dialer{Timeout: timeout / 2}).DialContext,
		MaxIdleConnsPerHost: 256, DisableCompression: true,
	}
	return client{Client: http.Client{Transport: transport, Timeout: timeout}, token: token}
}

// request is a request to a shop.
type request struct {
	method, path string
	key          string // idempotency key, or ""
	prefer       string // the Prefer header, or ""
	body         any    // sent as JSON; nil: none
}

// answer is the outcome of a request.
type answer struct {
	status int    // 0: the outcome is unknown
	code   string // from a problem reply; without one, the status as text
	header http.Header
	text   []byte
	err    error // why the outcome is unknown, or why the shop refused
}

// send sends a request once, to the shop at base. It reads the body of a success into v, unless v
// is nil.
func (c client) send(ctx context.Context, base string, r request, v any) answer {
	a, err := c.exchange(ctx, base, r)
	if err == nil && a.status/100 == 2 && v != nil {
		if err = json.Unmarshal(a.text, v); err != nil {
			err = fmt.Errorf("it does not answer like a shop: %w", err)
		}
	}
	if err != nil {
		return answer{err: fmt.Errorf("%s %s%s: %w", r.method, base, r.path, err)}
	}
	if a.status/100 == 2 {
		return a
	}
	a.code = cmp.Or(codeOf(a.text), strconv.Itoa(a.status))
	said := report.Printable(string(bytes.TrimSpace(a.text[:min(len(a.text), maxSaid)])))
	if a.status == http.StatusUnauthorized {
		said = "set -token to the token of the shop"
	}
	a.err = fmt.Errorf("%s %s%s: %d %s: %s", r.method, base, r.path, a.status, http.StatusText(a.status), said)
	return a
}

// codeOf returns the code of a problem reply, or "" if it has none.
func codeOf(text []byte) string {
	var problem struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(text, &problem) // the code stays empty if the reply is not a problem
	return problem.Code
}

// to returns r as an HTTP request to the shop at base, without a token.
func (r request) to(base string) (*http.Request, error) {
	var content []byte
	if r.body != nil {
		var err error
		if content, err = json.Marshal(r.body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequest(r.method, base+r.path, bytes.NewReader(content))
	if err != nil {
		return nil, err
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{"Idempotency-Key": r.key, "Prefer": r.prefer} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	return req, nil
}

func (c client) exchange(ctx context.Context, base string, r request) (a answer, err error) {
	req, err := r.to(base)
	if err != nil {
		return a, err
	}
	req = req.WithContext(ctx)
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return answer{status: res.StatusCode, header: res.Header, text: text}, err
}

// at returns a copy of c that asks only the shop at base.
func (c client) at(base string) client {
	c.base = func() string { return base }
	return c
}

// ask repeats a request until a shop answers it or the limit is reached.
func (c client) ask(ctx context.Context, r request, v any) answer {
	end := time.Now().Add(c.limit)
	for pause := c.first; ; pause = min(2*pause, c.last) {
		a := c.send(ctx, c.base(), r, v)
		again := a.status == http.StatusServiceUnavailable || a.status == 0 && c.silent
		if !again || time.Now().Add(pause).After(end) || guard.Sleep(ctx, pause) != nil {
			return a
		}
	}
}

// must is like ask, but returns an error unless the request succeeds.
func (c client) must(ctx context.Context, r request, v any) error {
	a := c.ask(ctx, r, v)
	if a.err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return a.err
}

// put puts an item on sale. Requests that name no strategy buy under the given one, or under the
// shop's default if it is "".
func (c client) put(ctx context.Context, sku string, units int64, keeper stock.Backend, strategy string) error {
	item := map[string]any{"stock": units, "name": "the bench's item", "keeper": keeper}
	if strategy != "" {
		item["strategy"] = strategy
	}
	return c.must(ctx, request{method: http.MethodPut, path: "/api/items/" + sku, body: item}, nil)
}

// remove removes an item, once its last hold has ended.
func (c client) remove(ctx context.Context, sku string) error {
	r := request{method: http.MethodDelete, path: "/api/items/" + sku}
	for {
		a := c.ask(ctx, r, nil)
		switch {
		case a.status == http.StatusNotFound: // an earlier try deleted it and was answered with 503
			return nil
		case a.code != "holds_open" || guard.Sleep(ctx, deletePause) != nil:
			return a.err
		}
	}
}

// audit reads the shop's audit of an item.
func (c client) audit(ctx context.Context, sku string) (found web.Audit, err error) {
	err = c.must(ctx, request{method: http.MethodGet, path: "/api/audit/" + sku}, &found)
	return found, err
}

// eachOrder calls f with each order of one sale of an item. It returns an error if the number of
// orders exceeds the limit.
func (c client) eachOrder(ctx context.Context, sku, saleID string, most int64, f func(stock.ListedOrder)) error {
	var n int64
	for after := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(stock.MaxOrders)}}
		if after != "" {
			query.Set("after", after)
		}
		var page stock.Orders
		path := "/api/audit/" + sku + "/orders?" + query.Encode()
		err := c.must(ctx, request{method: http.MethodGet, path: path}, &page)
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
