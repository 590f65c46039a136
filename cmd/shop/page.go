package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"oversell/internal/lab/search"
	"oversell/internal/page"
	"oversell/internal/page/class"
	"oversell/internal/page/runs"
)

// budget bounds a search of every schedule of a strategy. With two buyers v9_cohort has
// 360,000 states; with three it has too many.
var budget = search.Budget{States: 500_000, Time: 3 * time.Minute}

// newPage returns the page of a shop on these backends. Its runs end with ctx. The caller
// must call close, which waits for them, before it closes the backends.
func newPage(ctx context.Context, o options, on runs.Backends, room *class.Class, log *slog.Logger) (h http.Handler, close func(), err error) {
	manager := runs.New(ctx, runs.Config{Command: self(instanceArg), Shop: &on, Logger: log})
	p, err := page.New(ctx, page.Config{
		Runs: manager, Token: o.Web.Token, Anomalies: measureMatrix, Budget: budget, Class: room, Logger: log,
	})
	if err != nil {
		manager.Close()
		return nil, nil, err
	}
	return p, func() {
		manager.Close()
		p.Close()
	}, nil
}
