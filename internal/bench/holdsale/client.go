package holdsale

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oversell/internal/fleet"
	"oversell/internal/stock"
	"oversell/internal/web"
)

const (
	maxConnections = 256
	maxReply       = 4 << 20
	// requestTimeout bounds one request, and patience all tries of it.
	requestTimeout = 12 * time.Second
	patience       = 40 * time.Second
	// The pause between two tries of a request grows from firstPause to lastPause.
	firstPause = 20 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	// deletePause is the pause between two tries to delete an item with open holds.
	deletePause = 100 * time.Millisecond
)

// client sends requests to the shops, each to the next shop, and again if no answer comes.
type client struct {
	http  *http.Client
	shops *shops
}

func newClient(f *shops) *client {
	return &client{
		http:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxConnections}, Timeout: requestTimeout},
		shops: f,
	}
}

func (c *client) close() { c.http.CloseIdleConnections() }

// answer is the outcome of a request.
type answer struct {
	status int    // 0: nothing was learned
	code   string // of a problem
	err    error  // why nothing was learned
}

// unanswered reports whether the request should be sent again.
func (a answer) unanswered() bool { return a.err != nil || a.status == http.StatusServiceUnavailable }

// request is a request to any shop.
type request struct {
	method, path, key string
	body              any
}

// ask sends a request until a shop gives an answer other than 503, or for as long as the
// patience lasts. It reads the body of a success into v, unless v is nil.
func (c *client) ask(ctx context.Context, r request, v any) answer {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pause := firstPause
	for {
		a := c.try(ctx, r, v)
		if !a.unanswered() {
			return a
		}
		if !fleet.Sleep(ctx, pause) {
			return a
		}
		pause = min(2*pause, lastPause)
	}
}

func (c *client) try(ctx context.Context, r request, v any) answer {
	failed := func(err error) answer { return answer{err: fmt.Errorf("%s %s: %w", r.method, r.path, err)} }
	var content []byte
	if r.body != nil {
		var err error
		if content, err = json.Marshal(r.body); err != nil {
			return failed(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.shops.url()+r.path, bytes.NewReader(content))
	if err != nil {
		return failed(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.shops.token)
	req.Header.Set("Content-Type", "application/json")
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return failed(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return failed(err)
	}
	a := answer{status: res.StatusCode}
	if res.StatusCode/100 != 2 {
		var problem struct {
			Code string `json:"code"`
		}
		_ = json.Unmarshal(text, &problem) // a reply without a code is counted by its status
		a.code = problem.Code
		if a.code == "" {
			a.code = strconv.Itoa(res.StatusCode)
		}
		return a
	}
	if v != nil {
		if err := json.Unmarshal(text, v); err != nil {
			return failed(err)
		}
	}
	return a
}

// must is ask for what has to succeed.
func (c *client) must(ctx context.Context, r request, v any) error {
	return mustSucceed(ctx, r, c.ask(ctx, r, v))
}

// mustSucceed returns an error for any answer that is not a success.
func mustSucceed(ctx context.Context, r request, a answer) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case a.err != nil:
		return a.err
	case a.status/100 != 2:
		return fmt.Errorf("%s %s: status %d, %s", r.method, r.path, a.status, a.code)
	}
	return nil
}

// put puts an item on sale by holds.
func (c *client) put(ctx context.Context, sku string, units int64) error {
	item := map[string]any{"stock": units, "name": "the bench's item", "keeper": stock.InHolds}
	return c.must(ctx, request{method: http.MethodPut, path: "/api/items/" + sku, body: item}, nil)
}

// delete removes an item when its last hold has ended.
func (c *client) delete(ctx context.Context, sku string) error {
	r := request{method: http.MethodDelete, path: "/api/items/" + sku}
	for {
		a := c.ask(ctx, r, nil)
		if a.code != "holds_open" || !fleet.Sleep(ctx, deletePause) {
			return mustSucceed(ctx, r, a)
		}
	}
}

func (c *client) audit(ctx context.Context, sku string) (found web.Audit, err error) {
	err = c.must(ctx, request{method: http.MethodGet, path: "/api/audit/" + sku}, &found)
	return found, err
}

// orders reads all orders of an item.
func (c *client) orders(ctx context.Context, sku string) (all []stock.ListedOrder, err error) {
	for after := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(stock.MaxOrders)}}
		if after != "" {
			query.Set("after", after)
		}
		var page stock.Orders
		if err := c.must(ctx, request{method: http.MethodGet, path: "/api/audit/" + sku + "/orders?" + query.Encode()}, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Orders...)
		if page.Next == "" {
			return all, nil
		}
		after = page.Next
	}
}
