package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"oversell/internal/bench/client"
	"oversell/internal/bench/report"
	"oversell/internal/web/problem"
)

// askTargets returns an error that wraps ErrConfig if a running shop lacks a strategy of
// the config.
func (b *runner) askTargets(ctx context.Context) error {
	if b.shops != nil {
		return nil
	}
	for _, target := range b.targets {
		names, err := b.admin.strategies(ctx, target)
		if err != nil {
			return err
		}
		for _, name := range b.cfg.Strategies {
			if !slices.Contains(names, name) {
				return Invalid("the shop at %s says: its strategies are %s; %s is not one of them", target, strings.Join(names, ", "), name)
			}
		}
	}
	return nil
}

// strategies returns the names of the shop's strategies.
func (c *shopClient) strategies(ctx context.Context, base string) ([]string, error) {
	var found struct {
		Strategies []struct {
			Name string `json:"name"`
		} `json:"strategies"`
	}
	if a := c.at(base).Ask(ctx, client.Request{Method: http.MethodGet, Path: "/api/strategies"}, &found); a.Err != nil {
		return nil, a.Err
	}
	names := make([]string, len(found.Strategies))
	for i, s := range found.Strategies {
		names[i] = s.Name
	}
	return names, nil
}

// refused returns an error that wraps ErrConfig for a row of running shops if a shop
// could not run the strategy at all, which says nothing about the strategy.
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
			_ = json.Unmarshal(a.Text, &said) // a reply that is no problem says nothing
			if said.Code == code {
				return Invalid("the shop at %s says: %s", target, report.Printable(said.Detail))
			}
		}
		return Invalid("the shops at %s say: %s", strings.Join(b.targets, ", "), code)
	}
	return nil
}
