package reconcile

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/stock"
)

func TestMain(m *testing.M) {
	logging.Disable() // what go-redis would print it returns as well
	if os.Getenv(childVariable) != "" {
		os.Exit(child(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(backendtest.Main(m))
}

// site has the backends of one test.
type site struct {
	redisURL, dbURL string
	rdb             redis.UniversalClient
	db              *gorm.DB
}

// eachSite runs f over embedded and real backends.
func eachSite(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) { f(t, newSite(t, backendtest.Redis(t, kind), backendtest.Database(t, kind))) })
	}
}

func newSite(t *testing.T, redisURL, dbURL string) *site {
	t.Helper()
	s := &site{redisURL: redisURL, dbURL: dbURL, rdb: backendtest.DialRedis(t, redisURL), db: backendtest.DialDatabase(t, dbURL)}
	migrateAll(t, s.db)
	return s
}

func migrateAll(t *testing.T, db *gorm.DB) {
	t.Helper()
	if err := stock.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// newService starts a service that sells by lua_atomic.
func newService(rdb redis.UniversalClient, db *gorm.DB, grace time.Duration) *stock.Service {
	cfg := stock.Config{
		DB: db, Redis: rdb, History: backend.RedisHistory(rdb), Wait: time.Minute, Grace: grace,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	for _, s := range catalog.Strategies() {
		if s.Name == strategy {
			catalog.List{s}.Sell(&cfg, catalog.Options{Redis: rdb})
		}
	}
	return stock.New(cfg)
}

// strategy sells in all tests here.
const strategy = "lua_atomic"

// service starts a service of this process.
func (s *site) service(t *testing.T) *stock.Service {
	t.Helper()
	service := newService(s.rdb, s.db, time.Millisecond)
	t.Cleanup(service.Close)
	return service
}

// stopped returns a reconciler that makes a round whenever the test says so.
func (s *site) stopped(t *testing.T, log io.Writer) *reconciler {
	t.Helper()
	return newReconciler(Config{Stock: s.service(t), DB: s.db, Every: time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil))})
}

var skus atomic.Int64

// put puts a new item on sale.
func (s *site) put(t *testing.T, service *stock.Service, units int64) (sku string) {
	t.Helper()
	sku = fmt.Sprintf("item-%d", skus.Add(1))
	if _, err := service.Put(t.Context(), stock.Item{SKU: sku, Initial: units}); err != nil {
		t.Fatal(err)
	}
	return sku
}

// strand takes units from the stock as a process does that is killed before it writes the
// order.
func (s *site) strand(t *testing.T, sku string, units int64) {
	t.Helper()
	key, err := stockKey(t.Context(), s.rdb, sku)
	if err == nil {
		err = s.rdb.DecrBy(t.Context(), key, units).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// stockKey is the key of the stock of the generation that Redis has.
func stockKey(ctx context.Context, rdb redis.UniversalClient, sku string) (string, error) {
	sale, err := rdb.Get(ctx, "oversell:{"+sku+"}:sale").Result()
	if err != nil {
		return "", err
	}
	parts := strings.SplitN(sale, ":", 3)
	return "oversell:{" + sku + "}:stock:" + parts[0] + ":" + parts[1], nil
}

// left returns the units in the stock.
func left(t *testing.T, service *stock.Service, sku string) int64 {
	t.Helper()
	n, _, err := service.Left(t.Context(), sku)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// await waits until f returns true, and fails the test if that takes too long.
func await(t *testing.T, limit time.Duration, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit + backendtest.Slack); !f(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v still not: %s", limit+backendtest.Slack, what)
		}
	}
}

// buffer collects a log.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// count returns how many lines have a text.
func (l *buffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}
