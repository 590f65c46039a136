package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"oversell/internal/bench/client"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/web/problem"
)

const (
	adminTimeout = 30 * time.Second
	// After a rush, backends may still be busy: a shop that answers with 503 is asked again.
	askAgain  = time.Second
	askingFor = 20 * time.Second
)

// newAdmin returns a client that asks single shops, outside the load.
func newAdmin(token string) client.Shops {
	patience := client.Patience{First: askAgain, Last: askAgain, For: askingFor}
	return client.Shops{Client: client.New(token, adminTimeout), Patience: patience}
}

// request returns the i-th request of a row.
func (c Config) request(i int, strategy, sku string) client.Request {
	query := url.Values{"strategy": {strategy}}
	if c.Workload == catalog.Cache {
		query.Set("second_look", strconv.FormatBool(c.SecondLook))
		return client.Request{Method: http.MethodGet, Path: "/api/items/" + sku + "?" + query.Encode()}
	}
	return client.Request{
		Method: http.MethodPost, Path: "/api/items/" + sku + "/deduct?" + query.Encode(), Key: c.key(i),
		Body: struct {
			Quantity int64 `json:"quantity"`
		}{askedFor},
	}
}

// askedFor is the number of units that every buyer asks for.
const askedFor = 1

// key returns the idempotency key of the i-th request of a row, or "" if it has none.
func (c Config) key(i int) string {
	switch c.Keys {
	case UniqueKeys:
		return strconv.Itoa(i)
	case PairedKeys:
		return strconv.Itoa(i / 2) // the requests of a pair go to different shops, if there are two
	}
	return ""
}

// askTargets returns an error that wraps ErrConfig if a running shop lacks a strategy of
// the config.
func (b *runner) askTargets(ctx context.Context) error {
	if b.shops != nil {
		return nil
	}
	for _, target := range b.targets {
		var found struct {
			Strategies []struct {
				Name string `json:"name"`
			} `json:"strategies"`
		}
		a := b.admin.At(target).Ask(ctx, client.Request{Method: http.MethodGet, Path: "/api/strategies"}, &found)
		if a.Err != nil {
			return a.Err
		}
		var names []string
		for _, s := range found.Strategies {
			names = append(names, s.Name)
		}
		for _, name := range b.asked.Strategies {
			if !slices.Contains(names, name) {
				return Invalid("the shop at %s says: its strategies are %s; %s is not one of them", target,
					strings.Join(names, ", "), name)
			}
		}
	}
	return nil
}

// refused returns an error that wraps ErrConfig if a running shop could not run the strategy at
// all. A row of such a shop says nothing about the strategy.
func (b *runner) refused(ctx context.Context, cfg Config, row report.Row) error {
	for code := range row.Reasons {
		if code != "unknown_strategy" && code != "wrong_keeper" {
			continue
		}
		for _, target := range b.targets {
			sku := b.skus[len(b.skus)-1]
			a := b.admin.Send(ctx, target, cfg.request(0, row.Strategy, sku), nil)
			if a.Err != nil && a.Status == 0 {
				return a.Err
			}
			var said problem.Problem
			_ = json.Unmarshal(a.Text, &said) // said stays empty if the reply is not a problem
			if said.Code == code {
				return Invalid("the shop at %s says: %s", target, report.Printable(said.Detail))
			}
		}
		return Invalid("the shops at %s say: %s", strings.Join(b.targets, ", "), code)
	}
	return nil
}
