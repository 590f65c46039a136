package bench

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
