package bench_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/bench"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/shop"
	"oversell/internal/web"
)

// open runs a shop until the end of the test, and returns its address. The bench did not start this
// shop.
func open(t *testing.T, token string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	cfg := shop.Config{
		Web: web.Config{Addr: "127.0.0.1:0", Token: token}, Strategy: "v6_watchdog",
		RedisURL: backendtest.Redis(t, "embedded"), DBURL: backendtest.Database(t, "embedded"),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Ready:  func(addr string) { ready <- addr },
	}
	go func() { ended <- shop.Run(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case addr := <-ready:
		return "http://" + addr
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
	}
	return ""
}

// against returns the config of a small run against running shops.
func against(targets ...string) bench.Config {
	return bench.Config{
		Requests: 100, Stock: 20, Workload: catalog.Deduct, Conditions: []catalog.Condition{catalog.Calm},
		Strategies: []string{"v6_watchdog"}, Instances: 1, Keys: bench.NoKeys, SecondLook: true,
		Policy: guard.Fixed{Delay: 1}, Targets: targets,
	}
}

func TestShopThatRunsAlreadyIsBenched(t *testing.T) {
	base := open(t, "secret")
	cfg := against(base + "/")
	cfg.Token, cfg.Strategies = "secret", []string{"watch", "v6_watchdog"}
	rows := run(t, cfg)
	checkExpected(t, rows)
	if sold := rows["v6_watchdog/calm"].Sold; sold != 20 {
		t.Errorf("sold %d, want 20", sold)
	}
	res, err := http.Get(base + "/metrics")
	must(t, err)
	defer res.Body.Close()
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	if !bytes.Contains(text, []byte(`strategy="v6_watchdog"`)) {
		t.Error("the shop's metrics know of no request under v6_watchdog")
	}
}

// If a shop is away, refuses the token, or cannot run a strategy, the run returns an error; the
// strategy is not reported as broken.
func TestWhatAShopCannotRunIsSaid(t *testing.T) {
	base := open(t, "secret")
	for _, tt := range []struct {
		target, token, strategy string
		config                  bool
		says                    string
	}{
		{"http://127.0.0.1:1", "secret", "watch", false, "127.0.0.1:1"},
		{base, "", "watch", false, "401 Unauthorized: set -token to the token of the shop"},
		{base, "wrong", "watch", false, "401 Unauthorized: set -token to the token of the shop"},
		{base, "secret", "etcd", true, "the shop at " + base + " says: its strategies are none, local"},
		{base, "secret", "sql_for_update", true, "the shop at " + base + " says: its strategies are none, local"},
	} {
		cfg := against(tt.target)
		cfg.Token, cfg.Strategies = tt.token, []string{tt.strategy}
		rows, err := bench.Run(t.Context(), cfg, bench.Silent{})
		if err == nil || errors.Is(err, bench.ErrConfig) != tt.config || !strings.Contains(err.Error(), tt.says) ||
			strings.Contains(err.Error(), "secret") || len(rows) > 0 {
			t.Errorf("%+v: %v, %d rows", tt, err, len(rows))
		}
	}
}

// The commands of the bench's own audits do not count, however many there are until all accepted
// orders are written.
func TestAuditsAreNotCounted(t *testing.T) {
	var commands, unwritten atomic.Int64
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/strategies"):
			fmt.Fprint(w, `{"strategies":[{"name":"lua_stream"}]}`)
		case r.Method == http.MethodPost:
			commands.Add(2)
			unwritten.Store(4)
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"code":"sold_out"}`)
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusNoContent)
		case strings.HasSuffix(r.URL.Path, "/orders"):
			fmt.Fprint(w, `{}`)
		default:
			fmt.Fprintf(w, `{"redis_commands":%d,"unwritten":%d}`, commands.Add(7), max(0, unwritten.Add(-1)))
		}
	}))
	defer fake.Close()
	cfg := against(fake.URL)
	cfg.Strategies = []string{"lua_stream"}
	if n := run(t, cfg)["lua_stream/calm"].RedisCommands; n == nil || *n != 2 {
		t.Errorf("%v commands per request, want 2", n)
	}
}

// inFront runs a proxy in front of a shop until the end of the test, and returns its address.
// handle decides what happens to each request.
func inFront(
	t *testing.T, base string, handle func(w http.ResponseWriter, r *http.Request, shop http.Handler),
) string {
	t.Helper()
	to, err := url.Parse(base)
	must(t, err)
	transport := &http.Transport{}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, Transport: transport}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, pass) }))
	t.Cleanup(func() {
		s.Close()
		transport.CloseIdleConnections()
	})
	return s.URL
}

// unreliable runs a proxy that cuts off the first few deducts after the shop has replied. Their
// units are sold, but their buyers do not know it.
func unreliable(t *testing.T, base string, cut int64) string {
	t.Helper()
	var deducts atomic.Int64
	return inFront(t, base, func(w http.ResponseWriter, r *http.Request, shop http.Handler) {
		if r.Method == http.MethodPost && deducts.Add(1) <= cut {
			shop.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		shop.ServeHTTP(w, r)
	})
}

// The units of buyers who were cut off are already in the orders, but the bench cannot know that: each
// of their requests may still be on its way. Orders without a reply may belong to these buyers.
func TestUnlearnedOutcomesMakeAnInterval(t *testing.T) {
	for _, keys := range []bench.Keys{bench.NoKeys, bench.UniqueKeys, bench.PairedKeys} {
		cfg := against(unreliable(t, open(t, ""), 7))
		cfg.Keys = keys
		row := run(t, cfg)["v6_watchdog/calm"]
		if row.Unknown != 7 || row.Reasons["cut_off"] != 7 {
			t.Errorf("keys %s: %d outcomes not learned, %v; want 7 cut off", keys, row.Unknown, row.Reasons)
		}
		if row.Sold != 20 || row.Oversold != 0 || row.OversoldPossible != 7 || row.Verdict != figures.Unknown ||
			row.AcknowledgedMissing+row.Unreported+row.Duplicates != 0 {
			t.Errorf("keys %s: sold %d, oversold %d to %d, %s", keys, row.Sold, row.Oversold, row.OversoldPossible,
				row.Verdict)
		}
		if row.Expected || !strings.Contains(row.Differs, "unknown") {
			t.Errorf("keys %s: it counts as expected: %+v", keys, row)
		}
	}
}

// Repeated runs leave no items behind, and at most the items of two rounds exist at the same time.
func TestRepeatedRowsLeaveNoItems(t *testing.T) {
	var mu sync.Mutex
	there, most := make(map[string]bool), 0
	cfg := against(inFront(t, open(t, ""), func(w http.ResponseWriter, r *http.Request, shop http.Handler) {
		mu.Lock()
		switch r.Method {
		case http.MethodPut:
			there[r.URL.Path] = true
		case http.MethodDelete:
			delete(there, r.URL.Path)
		}
		most = max(most, len(there))
		mu.Unlock()
		shop.ServeHTTP(w, r)
	}))
	cfg.Strategies, cfg.Repeat = []string{"watch", "v6_watchdog"}, 4
	_, err := bench.Run(t.Context(), cfg, bench.Silent{})
	must(t, err)
	if len(there) != 0 || most != 4 {
		t.Errorf("%d items are left, and %d were there at once; want 0 and 4", len(there), most)
	}
}
