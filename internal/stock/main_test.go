package stock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/catalog"
	"oversell/internal/figures"
	"oversell/internal/guard"
	"oversell/internal/stock"
)

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m)) }

// must ends the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// site has the backends and the item of one test. Several instances of the service may run on them.
type site struct {
	rdb      redis.UniversalClient
	db       *gorm.DB
	watchers *watchers
	sku      string

	keeper stock.Backend // the keeper of the items that put creates
}

// kind is the kind of backends: real ones with the build tag system, otherwise embedded ones.
var kind = backendtest.Kinds()[len(backendtest.Kinds())-1]

// eachSite runs f in parallel with other tests, with separate backends.
func eachSite(t *testing.T, f func(t *testing.T, s *site)) {
	t.Helper()
	t.Parallel()
	t.Run(kind, func(t *testing.T) {
		f(t, newSite(t, backendtest.DialRedis(t, backendtest.Redis(t, kind)),
			backendtest.DialDatabase(t, backendtest.Database(t, kind))))
	})
}

// eachCase runs f for each case in parallel with other tests, with separate backends.
func eachCase[C any](t *testing.T, cases map[string]C, f func(t *testing.T, s *site, c C)) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) { f(t, s, c) })
		})
	}
}

// eventually waits until reached returns true. The limit only ends a hang: the test then fails and
// reports the last state.
func eventually(t *testing.T, what string, reached func() (ok bool, state any)) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; pause() {
		ok, state := reached()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waiting until %s: there is %+v", what, state)
		}
	}
}

func newSite(t *testing.T, rdb redis.UniversalClient, db *gorm.DB) *site {
	t.Helper()
	must(t, stock.Migrate(t.Context(), db))
	watchers := new(watchers)
	must(t, watchers.register(db))
	return &site{rdb: rdb, db: db, watchers: watchers, sku: newSKU()}
}

// embeddedSite returns a site on embedded backends, for tests that do not depend on the backends.
func embeddedSite(t *testing.T) *site {
	t.Helper()
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	return newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")))
}

var skus atomic.Int64

// newSKU returns a unique SKU.
func newSKU() string { return fmt.Sprintf("item-%d", skus.Add(1)) }

// instance starts another instance, with the guards of all strategies.
func (s *site) instance(t *testing.T, adjust func(*stock.Config)) *stock.Service {
	t.Helper()
	cfg := stock.Config{
		DB: s.db, Redis: s.rdb, History: backend.RedisHistory(s.rdb), Wait: time.Minute,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	strategies().
		Sell(&cfg, catalog.Options{Redis: s.rdb, TTL: time.Minute, Policy: &guard.Line{Delay: time.Millisecond}})
	if adjust != nil {
		adjust(&cfg)
	}
	service := stock.New(cfg)
	t.Cleanup(service.Close)
	return service
}

// put begins a sale of the site's item.
func (s *site) put(t *testing.T, service *stock.Service, units int64) stock.Item {
	t.Helper()
	item, err := service.Put(t.Context(), stock.Item{SKU: s.sku, Initial: units, Keeper: s.keeper})
	must(t, err)
	return item
}

// sale starts another instance, which begins a sale of the site's item.
func (s *site) sale(t *testing.T, units int64) *stock.Service {
	t.Helper()
	service := s.instance(t, nil)
	s.put(t, service, units)
	return service
}

var owners atomic.Int64

// request returns a request for one unit.
func (s *site) request(strategy, key string) stock.Request {
	return stock.Request{
		SKU: s.sku, Quantity: 1, Strategy: strategy, IdempotencyKey: key,
		Owner: fmt.Sprintf("buyer-%d", owners.Add(1)),
	}
}

// buy buys a unit of the site's item.
func (s *site) buy(t *testing.T, service *stock.Service, strategy string) stock.Result {
	t.Helper()
	res, err := service.Deduct(t.Context(), s.request(strategy, ""))
	if err != nil {
		t.Errorf("a unit of %s with %s: %v", s.sku, strategy, err)
	}
	return res
}

// wantRefused fails unless the purchase fails with the error want.
func wantRefused(t *testing.T, service *stock.Service, req stock.Request, want error) {
	t.Helper()
	if _, err := service.Deduct(t.Context(), req); !errors.Is(err, want) {
		t.Errorf("%d of %s with %s and key %q: got %v, want %v", req.Quantity, req.SKU, req.Strategy,
			req.IdempotencyKey, err, want)
	}
}

// audit audits the site's item.
func (s *site) audit(t *testing.T, service *stock.Service) stock.Audit {
	t.Helper()
	a, err := service.Audit(t.Context(), s.sku)
	must(t, err)
	return a
}

// wantStock compares an audit with the expected figures.
func wantStock(t *testing.T, got stock.Audit, initial, remaining, sold, orders int64) {
	t.Helper()
	want := figures.Stock{Initial: initial, Remaining: remaining, Sold: sold, Orders: orders}
	if got.Stock != want {
		t.Errorf("the audit finds %+v, want %+v", got.Stock, want)
	}
}

// rush makes n buyers buy concurrently, spread over the instances.
func rush(t *testing.T, s *site, n int, strategy string, instances ...*stock.Service) (sold, soldOut, attempts int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		req := s.request(strategy, "")
		all.Go(func() {
			res, err := instances[i%len(instances)].Deduct(t.Context(), req)
			mu.Lock()
			defer mu.Unlock()
			attempts += res.Lock.Attempts
			switch {
			case err == nil:
				sold++
			case errors.Is(err, stock.ErrSoldOut):
				soldOut++
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	return sold, soldOut, attempts
}

// variant is a strategy and the keeper of the stock that it sells.
type variant struct {
	strategy string
	keeper   stock.Backend
}

// holds reports whether the strategy neither oversells nor loses updates with several instances.
func (v variant) holds() bool { return v.strategy != "none" && v.strategy != "local" }

// oneLock reports whether the strategy is v9_cohort or not a lock. Tests that do not depend on the
// kind of lock run only these strategies.
func (v variant) oneLock() bool {
	return v.strategy == "v9_cohort" || !strings.HasPrefix(v.strategy, "v")
}

// eachVariant runs f for every strategy that these backends support and that which selects, each time
// with a new SKU. It runs strategies that support both keepers twice: with the stock in Redis, and in
// the database.
func (s *site) eachVariant(t *testing.T, which func(variant) bool, f func(t *testing.T, v variant)) {
	t.Helper()
	for _, strategy := range strategies() {
		for keeper, not := range map[stock.Backend]bool{stock.InRedis: strategy.InDatabase(),
			stock.InDatabase: strategy.InRedis()} {
			if strategy.Kind == catalog.Streamed { // stream_test.go tests lua_stream
				continue
			}
			v := variant{strategy.Name, keeper}
			if not || !which(v) || strategy.NeedsMySQL() && s.db.Name() != "mysql" {
				continue
			}
			t.Run(strategy.Name+"/"+string(keeper), func(t *testing.T) {
				s.sku, s.keeper = newSKU(), keeper
				f(t, v)
			})
		}
	}
}

// guardFunc is a function that serves as a guard.
type guardFunc func(ctx context.Context, e guard.Entry, section stock.Section) error

func (g guardFunc) Do(
	ctx context.Context, _ stock.Location, e guard.Entry, section stock.Section,
) (guard.Stats, error) {
	return guard.Stats{}, g(ctx, e, section)
}

// withGuard makes g the guard of the strategy "test".
func withGuard(g stock.Guard) func(*stock.Config) {
	return func(cfg *stock.Config) { cfg.Strategies = map[string]stock.Strategy{"test": {Guard: g}} }
}

// withStream sets the configuration of the stream.
func withStream(s stock.Stream) func(*stock.Config) {
	return func(cfg *stock.Config) {
		cfg.Strategies[streamed] = stock.Strategy{Script: stock.Streamed(cfg.Redis, s)}
	}
}

// withMixed allows strategies of all families to sell an item at the same time.
func withMixed(cfg *stock.Config) { cfg.Mixed = true }

// withWork sets the work of a holder.
func withWork(work stock.Work) func(*stock.Config) {
	return func(cfg *stock.Config) { cfg.Work = work }
}

// strategies returns the strategies that need only Redis and a database, except third-party locks,
// with which a crowd waits for seconds.
func strategies() catalog.List {
	return slices.DeleteFunc(catalog.Strategies().With(catalog.Options{}), func(s catalog.Strategy) bool {
		return s.Extra && s.Kind == catalog.Guarded
	})
}

// watchers are functions that gorm calls before or after statements. They are registered before a
// service runs, because gorm's Register changes a list that running statements read.
type watchers struct {
	mu                                     sync.Mutex
	beforeReads, beforeOrders, afterOrders []*watcher
}

type watcher struct {
	removed atomic.Bool
	f       func(tx *gorm.DB)
}

func (w *watchers) register(db *gorm.DB) error {
	query, row, create, raw := db.Callback().Query(), db.Callback().Row(), db.Callback().Create(), db.Callback().Raw()
	all := func(*gorm.DB) bool { return true }
	reads := w.call(&w.beforeReads, all)
	many := func(tx *gorm.DB) bool { return tx.Statement.Table == "oversell_orders" }
	one := func(tx *gorm.DB) bool {
		return strings.HasPrefix(tx.Statement.SQL.String(), "INSERT INTO `oversell_orders`")
	}
	return errors.Join(
		query.Before("gorm:query").Register("test:reads", reads),
		row.Before("gorm:row").Register("test:reads", reads),
		create.Before("gorm:create").Register("test:before", w.call(&w.beforeOrders, many)),
		raw.Before("gorm:raw").Register("test:before", w.call(&w.beforeOrders, one)),
		create.After("gorm:create").Register("test:after", w.call(&w.afterOrders, many)),
		raw.After("gorm:raw").Register("test:after", w.call(&w.afterOrders, one)),
	)
}

// call returns a callback that calls the watchers in list for the statements that concerns selects.
func (w *watchers) call(list *[]*watcher, concerns func(tx *gorm.DB) bool) func(tx *gorm.DB) {
	return func(tx *gorm.DB) {
		w.mu.Lock()
		all := *list
		w.mu.Unlock()
		for _, one := range all {
			if concerns(tx) && !one.removed.Load() {
				one.f(tx)
			}
		}
	}
}

// add adds f to a list, until remove is called.
func (w *watchers) add(list *[]*watcher, f func(tx *gorm.DB)) (remove func()) {
	one := &watcher{f: f}
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, one)
	return func() { one.removed.Store(true) }
}

// onReads calls f before every SELECT, until remove is called.
func (s *site) onReads(f func(tx *gorm.DB)) (remove func()) {
	return s.watchers.add(&s.watchers.beforeReads, f)
}

// beforeOrders calls f before every statement that writes orders, until remove is called.
func (s *site) beforeOrders(f func(tx *gorm.DB)) (remove func()) {
	return s.watchers.add(&s.watchers.beforeOrders, f)
}

// afterOrders calls f after every statement that wrote orders, until remove is called.
func (s *site) afterOrders(f func(tx *gorm.DB)) (remove func()) {
	return s.watchers.add(&s.watchers.afterOrders, f)
}

// ordersIn returns the quantities of the orders that a statement writes.
func ordersIn(tx *gorm.DB) (quantities []int64) {
	switch dest := tx.Statement.Dest.(type) {
	case *stock.Order:
		return []int64{dest.Quantity}
	case []*stock.Order:
		for _, o := range dest {
			quantities = append(quantities, o.Quantity)
		}
		return quantities
	}
	const quantity = 3 // the quantity's index in the statement's values
	return []int64{tx.Statement.Vars[quantity].(int64)}
}
