package bench

import (
	"bytes"
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

	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// shopClient puts items on sale in a shop and audits them, outside the load. Call close at
// the end.
type shopClient struct {
	http  *http.Client
	token string
	pause time.Duration // before it asks again
}

const (
	adminTimeout = 30 * time.Second
	// A shop whose backend has no time for it answers 503. The client asks again after
	// askAgain, as long as askingFor: a rush that is over leaves much to do.
	askAgain  = time.Second
	askingFor = 20 * time.Second
)

// newShopClient returns a client that, like the load, uses no proxy.
func newShopClient(token string) *shopClient {
	return &shopClient{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: auditsAtOnce}, Timeout: adminTimeout}, token: token, pause: askAgain}
}

func (c *shopClient) close() { c.http.CloseIdleConnections() }

func (c *shopClient) put(ctx context.Context, base, sku, strategy string, units int64, keeper stock.Backend) error {
	item := map[string]any{"stock": units, "name": "the bench's item", "keeper": keeper, "strategy": strategy}
	return c.call(ctx, http.MethodPut, base+"/api/items/"+sku, item, nil)
}

func (c *shopClient) delete(ctx context.Context, base, sku string) error {
	err := c.call(ctx, http.MethodDelete, base+"/api/items/"+sku, nil, nil)
	if errors.Is(err, errGone) {
		return nil // the first try has deleted it, and its answer was 503
	}
	return err
}

func (c *shopClient) audit(ctx context.Context, base, sku string) (web.Audit, error) {
	var found web.Audit
	err := c.call(ctx, http.MethodGet, base+"/api/audit/"+sku, nil, &found)
	return found, err
}

// orders reads a page of the orders of an item's sale that come after an id.
func (c *shopClient) orders(ctx context.Context, base, sku, after string) (stock.Orders, error) {
	var page stock.Orders
	query := url.Values{"limit": {strconv.Itoa(stock.MaxOrders)}}
	if after != "" {
		query.Set("after", after)
	}
	err := c.callLong(ctx, http.MethodGet, base+"/api/audit/"+sku+"/orders?"+query.Encode(), nil, &page, maxOrdersReply)
	return page, err
}

// maxOrdersReply bounds a page of orders, in bytes. An order takes less than 400.
const maxOrdersReply = 400*stock.MaxOrders + maxReply

// call sends a request and reads the reply into v, unless v is nil.
func (c *shopClient) call(ctx context.Context, method, address string, body, v any) error {
	return c.callLong(ctx, method, address, body, v, maxReply)
}

// callLong is call for replies of up to limit bytes. It asks again for a while if the shop cannot
// answer now: all that the client asks for can be repeated.
func (c *shopClient) callLong(ctx context.Context, method, address string, body, v any, limit int64) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, address, err)
		}
	}
	for end := time.Now().Add(askingFor); ; {
		err := c.callOnce(ctx, method, address, text, v, limit)
		if !errors.Is(err, errNotNow) || time.Now().After(end) || guard.Sleep(ctx, c.pause) != nil {
			return err
		}
	}
}

// The answers 503 and 404 of a shop.
var (
	errNotNow = errors.New("the shop cannot answer now")
	errGone   = errors.New("the shop has no such item")
)

func (c *shopClient) callOnce(ctx context.Context, method, address string, text []byte, v any, limit int64) error {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, address, err)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return err // names the method and the address itself
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, limit))
	if err != nil {
		return fmt.Errorf("%s %s: reading the reply: %w", method, address, err)
	}
	if res.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%s %s: %s: set -token to the token of the shop", method, address, res.Status)
	}
	switch said := bytes.TrimSpace(reply); {
	case res.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("%s %s: %w: %s", method, address, errNotNow, said)
	case res.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s %s: %w: %s", method, address, errGone, said)
	case res.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s: %s", method, address, res.Status, bytes.TrimSpace(reply))
	}
	if v == nil {
		return nil
	}
	if err := json.Unmarshal(reply, v); err != nil {
		return fmt.Errorf("%s %s: reading the reply: %w", method, address, err)
	}
	return nil
}

// requests returns a function that makes the i-th request of a row.
func (c Config) requests(strategy string, sku func(i int) string) func(i int, target string) (*http.Request, error) {
	query := url.Values{"strategy": {strategy}}
	if c.Workload == catalog.Cache {
		query.Set("second_look", strconv.FormatBool(c.SecondLook))
		return func(i int, target string) (*http.Request, error) {
			return http.NewRequest(http.MethodGet, target+"/api/items/"+sku(i)+"?"+query.Encode(), nil)
		}
	}
	body := fmt.Sprintf(`{"quantity":%d}`, askedFor)
	return func(i int, target string) (*http.Request, error) {
		req, err := http.NewRequest(http.MethodPost, target+"/api/items/"+sku(i)+"/deduct?"+query.Encode(), strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		if key := c.key(i); key != "" {
			req.Header.Set("Idempotency-Key", key)
		}
		return req, nil
	}
}

// askedFor is how many units every buyer asks for.
const askedFor = 1

// key is the idempotency key of the i-th request of a row, or "".
func (c Config) key(i int) string {
	switch c.Keys {
	case UniqueKeys:
		return strconv.Itoa(i)
	case PairedKeys:
		return strconv.Itoa(i / 2) // the two of a pair go to different shops where there are two
	}
	return ""
}
