package bench

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"oversell/internal/bench/client"
	"oversell/internal/catalog"
)

// shopClient asks single shops, outside the load.
type shopClient struct {
	*client.Client
	patience client.Patience
}

const (
	adminTimeout = 30 * time.Second
	// A rush that is over leaves much to do: a shop whose backend has no time for it is asked again.
	askAgain  = time.Second
	askingFor = 20 * time.Second
)

func newShopClient(token string) *shopClient {
	return &shopClient{client.New(token, adminTimeout), client.Patience{First: askAgain, Last: askAgain, For: askingFor}}
}

// at asks the shop at an address.
func (c *shopClient) at(base string) client.Shops {
	return client.Shops{Client: c.Client, Base: func() string { return base }, Patience: c.patience}
}

// requests returns a function that makes the i-th request of a row.
func (c Config) requests(strategy string, sku func(i int) string) func(i int, target string) (*http.Request, error) {
	return func(i int, target string) (*http.Request, error) { return c.request(i, strategy, sku(i)).To(target) }
}

// request is the i-th request of a row.
func (c Config) request(i int, strategy, sku string) client.Request {
	query := url.Values{"strategy": {strategy}}
	if c.Workload == catalog.Cache {
		query.Set("second_look", strconv.FormatBool(c.SecondLook))
		return client.Request{Method: http.MethodGet, Path: "/api/items/" + sku + "?" + query.Encode()}
	}
	return client.Request{
		Method: http.MethodPost, Path: "/api/items/" + sku + "/deduct?" + query.Encode(), Key: c.key(i), Body: quantity{askedFor},
	}
}

// quantity is the body of a purchase.
type quantity struct {
	Quantity int64 `json:"quantity"`
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
