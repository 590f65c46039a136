package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/cache"
	"oversell/internal/catalog"
	"oversell/internal/guard"
	"oversell/internal/stock"
	"oversell/internal/web"
	"oversell/internal/web/problem"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const token = "open-sesame"

// wait is the maximum time that a buyer waits. It is reached only if a test hangs: tests in which
// nobody can buy use a shorter wait.
const wait = 10 * time.Minute

// site is a shop's HTTP interface with everything behind it.
type site struct {
	http.Handler
	api   *web.API
	rdb   redis.UniversalClient
	stock *stock.Service
	log   *backendtest.Output
}

// eachSite runs f on embedded and on real backends.
func eachSite(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	t.Parallel()
	backendtest.Each(t, func(t *testing.T, rdb redis.UniversalClient, db *gorm.DB) {
		f(t, newSite(t, rdb, db, nil))
	})
}

// embeddedSite returns a site for tests that do not depend on the backends.
func embeddedSite(t testing.TB, adjust func(*web.Config, *stock.Config)) *site {
	t.Helper()
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	return newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")), adjust)
}

func newSite(t testing.TB, rdb redis.UniversalClient, db *gorm.DB, adjust func(*web.Config, *stock.Config)) *site {
	t.Helper()
	must(t, stock.Migrate(t.Context(), db))
	s := &site{rdb: rdb, log: new(backendtest.Output)}
	logger := slog.New(slog.NewTextHandler(s.log, nil))
	o := catalog.Options{Redis: rdb, TTL: time.Minute, Policy: &guard.Line{Delay: time.Millisecond}}
	sc := stock.Config{DB: db, Redis: rdb, History: backend.RedisHistory(rdb), Wait: wait, Logger: logger}
	strategies().Sell(&sc, o)
	wc := web.Config{
		Default: "v6_watchdog", ForReads: "local", Instance: t.Name(), Token: token, Logger: logger,
		Hosts:    []string{"example.com"}, // the host of httptest.NewRequest
		Check:    func(ctx context.Context) error { return rdb.Ping(ctx).Err() },
		Commands: func(ctx context.Context) (*int64, error) { return backend.RedisCommands(ctx, rdb) },
	}
	for _, strategy := range strategies() {
		wc.Strategies = append(wc.Strategies, web.Strategy{Name: strategy.Name, Cache: strategy.GuardsLoads()})
	}
	if adjust != nil {
		adjust(&wc, &sc)
	}
	s.stock = stock.New(sc)
	t.Cleanup(s.stock.Close)
	reader := cache.New(cache.Config{Redis: rdb, Guards: strategies().Guards(o), Instance: wc.Instance, Wait: wait})
	t.Cleanup(reader.Close)
	wc.Stock, wc.Cache = s.stock, reader
	s.api = web.New(wc)
	t.Cleanup(func() {
		s.api.Close()
		s.api.Wait(time.Minute)
	})
	s.Handler = s.api.Handler()
	return s
}

var skus atomic.Int64

// put puts a new item on sale and returns its SKU.
func (s *site) put(t testing.TB, units int64) string {
	t.Helper()
	sku := fmt.Sprintf("item-%d", skus.Add(1))
	if _, err := s.stock.Put(t.Context(), stock.Item{SKU: sku, Initial: units}); err != nil {
		t.Fatal(err)
	}
	return sku
}

// ask sends a request and returns the reply. Headers are pairs of a name and a value.
func (s *site) ask(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, req)
	return w
}

// admin sends a request with the admin token. Headers are pairs of a name and a value.
func (s *site) admin(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	return s.ask(method, path, body, append(headers, "Authorization", "Bearer "+token)...)
}

// read decodes a reply into v, and fails unless the status is 200.
func read(t testing.TB, w *httptest.ResponseRecorder, v any) {
	t.Helper()
	if w.Code != http.StatusOK {
		t.Fatalf("got %d %s, want 200", w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
		t.Fatalf("reading %s: %v", w.Body, err)
	}
}

// wantNothing checks that a reply is 204, which means success and has no body.
func wantNothing(t testing.TB, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != http.StatusNoContent {
		t.Errorf("got %d %s, want 204", w.Code, w.Body)
	}
}

// audit audits an item.
func (s *site) audit(t testing.TB, sku string) (a web.Audit) {
	t.Helper()
	read(t, s.ask("GET", "/api/audit/"+sku, ""), &a)
	return a
}

// checkProblem returns an error unless the reply is a valid problem document.
func checkProblem(w *httptest.ResponseRecorder) error {
	var p problem.Problem
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		return fmt.Errorf("an error of content type %q: %s", got, w.Body)
	}
	d := json.NewDecoder(w.Body)
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("reading the problem: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after the problem")
	}
	if p.Status != w.Code || p.Type == "" || p.Title == "" || p.Detail == "" || p.Code == "" {
		return fmt.Errorf("the problem of a %d lacks something: %+v", w.Code, p)
	}
	if said := p.Message.String(); said != "" && said != p.Detail {
		return fmt.Errorf("the message %q has the detail %q", said, p.Detail)
	}
	if (w.Code == http.StatusServiceUnavailable) != (w.Header().Get("Retry-After") != "") {
		return fmt.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
	}
	return nil
}

// wantProblem checks that a reply is a problem document with this status and code.
func wantProblem(t testing.TB, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	body := w.Body.String()
	if err := checkProblem(w); err != nil {
		t.Error(err)
	}
	if w.Code != status || !strings.Contains(body, `"code":"`+code+`"`) {
		t.Errorf("got %d %s, want %d with the code %s", w.Code, body, status, code)
	}
}

// strategies returns the strategies that need only Redis and a database.
func strategies() catalog.List { return catalog.Strategies().With(catalog.Options{}) }
