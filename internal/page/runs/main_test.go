package runs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/bench/report"
	"oversell/internal/catalog"
	"oversell/internal/message"
	"oversell/internal/page/texts"
)

func TestMain(m *testing.M) {
	backendtest.Play(func(ctx context.Context, _ string, in io.Reader, out, log io.Writer) error {
		return bench.Serve(ctx, in, out, log, nil)
	})
	os.Exit(backendtest.Main(m))
}

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open returns a manager that is closed at the end of the test. The backends of its shop may be nil.
func open(t *testing.T, shop *Backends) (*Manager, *backendtest.Processes) {
	t.Helper()
	p := new(backendtest.Processes)
	m := New(t.Context(), Config{Command: p.Command("instance"), Shop: shop, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(m.Close)
	return m, p
}

// pretending returns a manager whose runs start no processes. A row ends at once, or with the run
// if its strategy is endless.
func pretending(t *testing.T) *Manager {
	t.Helper()
	m, _ := open(t, nil)
	m.measure = func(ctx context.Context, r *run) error {
		c := &recorder{manager: m, run: r}
		for i, name := range r.Settings.Strategies {
			c.Row(i+1, r.Settings.rows(), name, catalog.Calm)
			if name == endless {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			c.Done(report.Row{Asked: report.Asked{Key: report.Key{Strategy: name, Condition: catalog.Calm}}})
		}
		return nil
	}
	return m
}

// endless is the strategy whose rows last until the run is stopped, in a manager from pretending.
const endless = "v1_setnx"

// small returns the settings of a run with one short row.
func small(m *Manager) Settings {
	s := m.Defaults()
	s.Strategies, s.Requests, s.Stock, s.Instances = []string{"v6_watchdog"}, 20, 5, 1
	return s
}

// long returns the settings of a run whose second row lasts until the run is stopped.
func long(m *Manager) Settings {
	s := m.Defaults()
	s.Strategies, s.Requests, s.Stock, s.Work = []string{"none", endless}, 1000, 1000, 100_000
	return s
}

func start(t *testing.T, m *Manager, s Settings) string {
	t.Helper()
	id, err := m.Start(s)
	must(t, err)
	return id
}

// until reads events up to a wanted one. It returns that event, and the rows of all events that it
// read.
func until(t *testing.T, s *Subscription, wanted func(Event) bool) (e Event, rows []NumberedRow) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		e, err := s.Next(ctx)
		must(t, err)
		rows = append(rows, e.Rows...)
		if wanted(e) {
			return e, rows
		}
	}
}

// checkRefused checks what an error wraps and says, and that it is translated into Chinese.
func checkRefused(t *testing.T, err, want error, says string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want %v and %q", err, want, says)
		return
	}
	chinese := texts.Listen(texts.In)
	if told := message.Of(err).Translate(chinese.Say); len(chinese.Untold) > 0 {
		t.Errorf("%v is told as %q; not translated: %q", err, told, chinese.Untold)
	}
}

// ended returns a function that reports whether the run has ended.
func ended(id string) func(Event) bool {
	return func(e Event) bool { return e.Run != nil && e.Run.ID == id && e.Run.Ended != nil }
}

// loaded reports whether a row has requests in flight and has been audited.
func loaded(e Event) bool {
	return e.Run != nil && e.Run.Now != nil && e.Run.Now.Point != nil && e.Run.Now.Point.Audited >= 0
}
