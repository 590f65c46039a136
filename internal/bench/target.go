package bench

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/catalog"
)

// newAdmin returns a client that asks single shops, outside the load. After a rush, backends may
// still be busy.
func newAdmin(token string) client {
	c := newClient(token, 30*time.Second)
	c.first, c.last, c.limit = time.Second, time.Second, 20*time.Second
	return c
}

// request returns the i-th request of a row.
func (c Config) request(i int, strategy, sku string) request {
	query := url.Values{"strategy": {strategy}}
	if c.Workload == catalog.Cache {
		query.Set("second_look", strconv.FormatBool(c.SecondLook))
		return request{method: http.MethodGet, path: "/api/items/" + sku + "?" + query.Encode()}
	}
	return request{
		method: http.MethodPost, path: "/api/items/" + sku + "/deduct?" + query.Encode(), key: c.key(i),
		body: struct {
			Quantity int64 `json:"quantity"`
		}{askedFor},
	}
}

// askedFor is the number of units that every buyer asks for.
const askedFor = 1

// key returns the idempotency key of the i-th request of a row, or "" if it has none.
func (c Config) key(i int) string {
	if c.Keys == UniqueKeys || c.Keys == PairedKeys {
		return strconv.Itoa(c.buyer(i)) // the requests of a pair go to different shops, if there are two
	}
	return ""
}

// askTargets returns an error that wraps ErrConfig if a running shop lacks a strategy of
// the config.
func (b *runner) askTargets(ctx context.Context) error {
	for _, shop := range b.shops.Members() {
		var found struct {
			Strategies []struct {
				Name string `json:"name"`
			} `json:"strategies"`
		}
		asked := request{method: http.MethodGet, path: "/api/strategies"}
		if err := b.admin.at(shop.URL).must(ctx, asked, &found); err != nil {
			return err
		}
		var names []string
		for _, s := range found.Strategies {
			names = append(names, s.Name)
		}
		for _, name := range b.asked.Strategies {
			if !slices.Contains(names, name) {
				return Invalid("the shop at %s says: its strategies are %s; %s is not one of them", shop.URL,
					strings.Join(names, ", "), name)
			}
		}
	}
	return nil
}
