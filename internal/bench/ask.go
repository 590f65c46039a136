package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
				return invalid("the shop at %s says: its strategies are %s; %s is not one of them", target, strings.Join(names, ", "), name)
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
			said, err := b.admin.refusal(ctx, cfg.requests(row.Strategy, func(int) string { return b.skus[len(b.skus)-1] }), target)
			if err != nil {
				return err
			}
			if said.Code == code {
				return invalid("the shop at %s says: %s", target, report.Printable(said.Detail))
			}
		}
		return invalid("the shops at %s say: %s", strings.Join(b.targets, ", "), code)
	}
	return nil
}

// refusal repeats a request of a row and returns the shop's problem reply, which is empty
// if the request is served.
func (c *shopClient) refusal(ctx context.Context, request func(i int, target string) (*http.Request, error), target string) (said problem.Problem, err error) {
	req, err := request(0, target)
	if err != nil {
		return said, err
	}
	res, err := c.Do(req.WithContext(ctx))
	if err != nil {
		return said, err
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 {
		return said, nil
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxReply)).Decode(&said); err != nil {
		return said, fmt.Errorf("%s %s: reading the reply: %w", req.Method, req.URL, err)
	}
	return said, nil
}
