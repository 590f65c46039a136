package lockbench_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/lockbench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/guard"
)

func TestMain(m *testing.M) {
	backendtest.Play(func(ctx context.Context, _ string, in io.Reader, out, _ io.Writer) error {
		return lockbench.Serve(ctx, contenders(), in, out)
	})
	os.Exit(backendtest.Main(m))
}

// contenders returns the project's contenders, and some locks that misbehave.
func contenders() lockbench.Catalog {
	all := lockbench.Contenders()
	add := func(name string, g guard.Guard, err error) {
		all = append(all, lockbench.Contender{Name: name,
			Make: func(string, catalog.Options) (guard.Guard, error) { return g, err }})
	}
	add("open", guard.None{}, nil)
	add("deaf", fake(func(ctx context.Context) error { // lets no contender in, and returns when the wait is over
		<-ctx.Done()
		return context.Cause(ctx)
	}), nil)
	add("rude", fake(func(context.Context) error { select {} }), nil) // does not return when the wait is over
	add("liar", fake(func(context.Context) error { return errors.New("no room") }), nil)
	add("dies", fake(func(context.Context) error { os.Exit(7); return nil }), nil)
	add("unable", nil, errors.New("out of order"))
	return all
}

// fake is a lock that lets no contender in.
type fake func(ctx context.Context) error

func (f fake) Do(ctx context.Context, _ guard.Entry, _ func(context.Context) error) (guard.Stats, error) {
	return guard.Stats{}, f(ctx)
}

// config returns a small run on a Redis of the given kind.
func config(t testing.TB, kind string) (bench.Config, *backendtest.Processes) {
	t.Helper()
	p := new(backendtest.Processes)
	t.Cleanup(func() { p.CheckEnded(t) })
	return bench.Config{
		RedisURL: backendtest.Redis(t, kind), Command: p.Command("contender"),
		Requests: 60, Instances: 2, TTL: 2 * time.Second, Wait: 30 * time.Second,
	}, p
}

// runAll runs a config with the contenders of these tests.
func runAll(ctx context.Context, cfg bench.Config, p bench.Progress) ([]report.Row, error) {
	return lockbench.Run(ctx, contenders(), cfg, p)
}

// kinds are the kinds of Redis that the tests run on.
var kinds = backendtest.Kinds()
