package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oversell/internal/locks"
	"oversell/internal/stock"
	"oversell/internal/web"
)

// shopClient puts items on sale in a shop and audits them, outside the load.
// Close must be called in the end.
type shopClient struct {
	http  *http.Client
	token string
}

const adminTimeout = 30 * time.Second

// newShopClient returns a client that, as the load does, asks no proxy.
func newShopClient(token string) *shopClient {
	return &shopClient{http: &http.Client{Transport: &http.Transport{}, Timeout: adminTimeout}, token: token}
}

func (c *shopClient) close() { c.http.CloseIdleConnections() }

func (c *shopClient) put(ctx context.Context, base, sku string, units int64, keeper stock.Keeper) error {
	return c.call(ctx, http.MethodPut, base+"/api/items/"+sku, map[string]any{"stock": units, "name": "the bench's item", "keeper": keeper}, nil)
}

func (c *shopClient) delete(ctx context.Context, base, sku string) error {
	return c.call(ctx, http.MethodDelete, base+"/api/items/"+sku, nil, nil)
}

func (c *shopClient) audit(ctx context.Context, base, sku string) (web.Audit, error) {
	var found web.Audit
	err := c.call(ctx, http.MethodGet, base+"/api/audit/"+sku, nil, &found)
	return found, err
}

// call sends a request and reads the reply into v, unless v is nil.
func (c *shopClient) call(ctx context.Context, method, address string, body, v any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%s %s: %w", method, address, err)
		}
	}
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
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return fmt.Errorf("%s %s: reading the reply: %w", method, address, err)
	}
	if res.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%s %s: %s: -token must be that of the shop", method, address, res.Status)
	}
	if res.StatusCode/100 != 2 {
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

// requests returns the function that makes the i-th request of a row.
func (c Config) requests(strategy, sku string) func(i int, target string) (*http.Request, error) {
	query := url.Values{"strategy": {strategy}}
	if c.Workload == locks.Cache {
		query.Set("second_look", strconv.FormatBool(c.SecondLook))
		return func(_ int, target string) (*http.Request, error) {
			return http.NewRequest(http.MethodGet, target+"/api/items/"+sku+"?"+query.Encode(), nil)
		}
	}
	return func(i int, target string) (*http.Request, error) {
		req, err := http.NewRequest(http.MethodPost, target+"/api/items/"+sku+"/deduct?"+query.Encode(), strings.NewReader(`{"quantity":1}`))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		switch c.Keys {
		case UniqueKeys:
			req.Header.Set("Idempotency-Key", strconv.Itoa(i))
		case PairedKeys:
			// The two of a pair go to different shops where there are two.
			req.Header.Set("Idempotency-Key", strconv.Itoa(i/2))
		}
		return req, nil
	}
}
