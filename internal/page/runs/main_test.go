package runs_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/page/runs"
)

func TestMain(m *testing.M) {
	backendtest.Play(func(ctx context.Context, _ string, in io.Reader, out, log io.Writer) error {
		return bench.Serve(ctx, in, out, log, nil)
	})
	os.Exit(backendtest.Main(m))
}

// open returns a manager for the length of the test.
func open(t *testing.T, change func(*runs.Config)) (*runs.Manager, *backendtest.Processes) {
	t.Helper()
	p := new(backendtest.Processes)
	cfg := runs.Config{Command: p.Command("instance"), Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	m := runs.New(t.Context(), cfg)
	t.Cleanup(m.Close)
	return m, p
}

// small is a run of one short row.
func small(m *runs.Manager) runs.Settings {
	s := m.Defaults()
	s.Strategies, s.Requests, s.Stock, s.Instances = []string{"v6_watchdog"}, 20, 5, 1
	return s
}

// long is a run that lasts until it is stopped: each holder works for a while.
func long(m *runs.Manager) runs.Settings {
	s := m.Defaults()
	s.Strategies, s.Requests, s.Stock, s.Work = []string{"v6_watchdog"}, 1000, 1000, 100_000
	return s
}

func start(t *testing.T, m *runs.Manager, s runs.Settings) string {
	t.Helper()
	id, err := m.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// until reads events until one is as wanted, and returns it with the rows of all events
// that it read.
func until(t *testing.T, s *runs.Subscription, wanted func(runs.Event) bool) (runs.Event, []runs.NumberedRow) {
	t.Helper()
	e, rows, err := await(t.Context(), s, wanted)
	if err != nil {
		t.Fatal(err)
	}
	return e, rows
}

// await is until for any goroutine of a test.
func await(ctx context.Context, s *runs.Subscription, wanted func(runs.Event) bool) (
	e runs.Event, rows []runs.NumberedRow, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if e, err = s.Next(ctx); err != nil {
			return e, rows, fmt.Errorf("waiting for an event: %w", err)
		}
		rows = append(rows, e.Rows...)
		if wanted(e) {
			return e, rows, nil
		}
	}
}

// ended reports whether a run has ended.
func ended(id string) func(runs.Event) bool {
	return func(e runs.Event) bool { return e.Run != nil && e.Run.ID == id && e.Run.Ended != nil }
}

// loaded reports whether the requests of a row are in flight and were audited once.
func loaded(e runs.Event) bool {
	return e.Run != nil && e.Run.Now != nil && e.Run.Now.Point != nil && e.Run.Now.Point.Audited >= 0
}
