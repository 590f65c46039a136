// Package holdstest tests the stages of package holds on embedded and on real backends: what they
// promise in calm, and what they do in a few difficult situations. The tests of a stage say which
// outcome is right. Most situations, such as late payments and two sweeps, are anomalies of the lab.
package holdstest

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/fault"
	"oversell/internal/holds"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
)

// TTL is long enough that holds do not expire by themselves during a test.
const TTL = time.Hour

// NewStage makes a stage.
type NewStage func(holds.Backends) holds.Stage

// Site holds the backends of one test, a stage on them, and an item that is sold by holds.
type Site struct {
	holds.Stage
	Backends holds.Backends
	DB       *gorm.DB
	Shop     *stock.Service
	Item     stock.Item

	Redis *locktest.Hook // sees the stage's commands
	SQL   *SQLHook       // sees the stage's statements

	t testing.TB
}

// Each runs f on embedded and on real backends, with a sale of the given number of units.
func Each(t *testing.T, units int64, n NewStage, f func(t *testing.T, s *Site)) {
	t.Helper()
	each(t, func(t *testing.T, rdb redis.UniversalClient, url string) {
		f(t, New(t, rdb, url, units, n, sql.LevelDefault))
	})
}

func each(t *testing.T, f func(t *testing.T, rdb redis.UniversalClient, url string)) {
	t.Helper()
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			f(t, backendtest.DialRedis(t, backendtest.Redis(t, kind)), backendtest.Database(t, kind))
		})
	}
}

// EachIsolation is like Each, but on the real database it runs f once for each isolation level that
// a shop may use.
func EachIsolation(t *testing.T, units int64, n NewStage, f func(t *testing.T, s *Site)) {
	t.Helper()
	each(t, func(t *testing.T, rdb redis.UniversalClient, url string) {
		if strings.HasPrefix(url, "sqlite:") {
			f(t, New(t, rdb, url, units, n, sql.LevelDefault))
			return
		}
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			t.Run(strings.ToLower(level.String()), func(t *testing.T) { f(t, New(t, rdb, url, units, n, level)) })
		}
	})
}

var skus atomic.Int64

// New returns a site on a Redis and on the database at a URL.
func New(
	t testing.TB, rdb redis.UniversalClient, url string, units int64, n NewStage, level sql.IsolationLevel,
) *Site {
	t.Helper()
	db := backendtest.DialDatabase(t, url)
	if err := errors.Join(stock.Migrate(t.Context(), db), holds.Migrate(t.Context(), db)); err != nil {
		t.Fatal(err)
	}
	s := &Site{DB: db, Redis: new(locktest.Hook), SQL: new(SQLHook), t: t}
	rdb.AddHook(s.Redis)
	hooked, err := backend.DialDatabaseThrough(t.Context(), url, fault.Injector{Hook: s.SQL.pass}.Through)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := hooked.DB()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	s.Backends = holds.Backends{Redis: rdb, DB: pool, SQL: holds.DialectOf(db), Isolation: level}
	s.Shop = stock.New(stock.Config{DB: db, Redis: rdb, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(s.Shop.Close)
	s.Stage = n(s.Backends)
	s.Item.SKU = fmt.Sprintf("item-%d", skus.Add(1))
	s.Put(units)
	return s
}

// Put begins a sale.
func (s *Site) Put(units int64) {
	s.t.Helper()
	item, err := s.Shop.Put(s.t.Context(), stock.Item{SKU: s.Item.SKU, Initial: units, Keeper: stock.InHolds})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Item = item
}

var ids atomic.Int64

// Request returns a request for one unit in the current sale.
func (s *Site) Request(buyer string) holds.Request {
	return holds.Request{
		ID: fmt.Sprintf("hold-%d", ids.Add(1)), SKU: s.Item.SKU, SaleID: s.Item.SaleID,
		Buyer: buyer, Quantity: 1, TTL: TTL,
	}
}

// Hold takes one unit.
func (s *Site) Hold(buyer string) holds.Hold {
	s.t.Helper()
	h, err := s.Take(s.t.Context(), s.Request(buyer))
	if err != nil {
		s.t.Fatalf("%s: %v", buyer, err)
	}
	return h
}

// Buy takes one unit and pays for it.
func (s *Site) Buy(buyer string) error {
	h, err := s.Take(s.t.Context(), s.Request(buyer))
	if err != nil {
		return err
	}
	return s.Pay(h)
}

// Pay claims a hold, with a payment of its own.
func (s *Site) Pay(h holds.Hold) error {
	_, err := s.Claim(s.t.Context(), h.ID, h.Token, "payment-"+h.ID)
	return err
}

// Expire makes a hold expire now.
func (s *Site) Expire(h holds.Hold) {
	s.t.Helper()
	if err := Expire(s.t.Context(), s.DB, s.Backends.Redis, h); err != nil {
		s.t.Fatal(err)
	}
}

// Expire makes a hold of any stage expire now, by moving its expiry into the past. A short ttl
// cannot be used instead: on a slow machine the hold would end too early in the test.
func Expire(ctx context.Context, db *gorm.DB, rdb redis.Cmdable, h holds.Hold) error {
	err := db.Exec("UPDATE oversell_holds SET expires_at = 0 WHERE id = ?", h.ID).Error
	err = errors.Join(err, rdb.Del(ctx, "oversell:h1:hold:"+h.ID).Err())
	key := "oversell:h1:" + h.SKU + ":expiry"
	for _, member := range rdb.ZRange(ctx, key, 0, -1).Val() {
		if !strings.Contains(member, `"`+h.ID+`"`) {
			continue
		}
		// The member contains the hold in JSON. The stage decides by it whether the hold has
		// expired.
		var saleID string
		past := h
		if err := json.Unmarshal([]byte(member), &[]any{&saleID, &past}); err != nil {
			return err
		}
		past.ExpiresAt = time.UnixMilli(1).UTC()
		text, _ := json.Marshal([]any{saleID, past}) // it was JSON before
		err = errors.Join(err, rdb.ZRem(ctx, key, member).Err(), rdb.ZAdd(ctx, key, redis.Z{Member: string(text)}).
			Err())
	}
	return err
}

// SweepAll ends all holds that have expired.
func (s *Site) SweepAll() int {
	s.t.Helper()
	n, err := s.Sweep(s.t.Context(), s.Item.SKU, 1_000)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// Figures says where the units of the sale are.
type Figures struct{ Left, Held, Sold, Stranded, Oversold int64 }

// Figures counts the units.
func (s *Site) Figures() Figures {
	s.t.Helper()
	var f Figures
	err := s.DB.Raw("SELECT COALESCE(SUM(quantity), 0) FROM oversell_orders WHERE sku = ? AND sale_id = ?",
		s.Item.SKU, s.Item.SaleID).Scan(&f.Sold).Error
	units, unitsErr := s.Units(s.t.Context(), s.Item.SKU, s.Item.SaleID)
	if err := errors.Join(err, unitsErr); err != nil {
		s.t.Fatal(err)
	}
	f.Left, f.Held = units.Left, units.Held
	f.Stranded = max(0, s.Item.Initial-f.Sold-f.Left-f.Held)
	f.Oversold = max(0, f.Sold+f.Left+f.Held-s.Item.Initial)
	return f
}

// Want checks the figures.
func (s *Site) Want(want Figures) {
	s.t.Helper()
	if got := s.Figures(); got != want {
		s.t.Errorf("got %+v, want %+v", got, want)
	}
}

// writes reports whether a statement changes something, or begins a transaction.
func writes(statement string) bool {
	return statement == "BEGIN" || strings.HasPrefix(statement, "UPDATE") ||
		strings.HasPrefix(statement, "INSERT") || strings.HasPrefix(statement, "DELETE")
}

var writesRedis = locktest.Command("decrby", "incrby", "del", "set", "zadd", "zrem")

// Midway runs f until its first write, and then runs meanwhile. After that, f continues with data
// that is out of date.
func (s *Site) Midway(f func() error, meanwhile func()) error {
	s.t.Helper()
	var parked atomic.Bool
	here, on := make(chan struct{}), make(chan struct{})
	park := func(ctx context.Context, send func() error) error {
		if parked.CompareAndSwap(false, true) {
			close(here)
			<-on
		}
		return send()
	}
	rule := s.Redis.On(writesRedis, -1, park)
	s.SQL.On(writes, park)
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		s.t.Fatalf("nothing was written; the result is %v", err)
	case <-here:
	}
	func() {
		defer close(on)
		meanwhile()
	}()
	err := <-done
	rule.Off()
	s.SQL.On(nil, nil)
	return err
}

// SQLHook decides what happens to statements, and to BEGIN, COMMIT and ROLLBACK. The zero
// SQLHook lets everything through. It is safe for concurrent use.
type SQLHook struct{ rule atomic.Pointer[sqlRule] }

type sqlRule struct {
	match func(statement string) bool
	then  locktest.Action
}

// On applies the given action to every statement that matches, until the next call. A nil match
// removes the rule. An action that fails with locktest.ErrCut breaks the connection.
func (h *SQLHook) On(match func(statement string) bool, then locktest.Action) {
	h.rule.Store(&sqlRule{match, then})
}

func (h *SQLHook) pass(ctx context.Context, s fault.Statement, send func() (fault.Reply, error)) error {
	sent := func() error {
		_, err := send()
		return err
	}
	rule := h.rule.Load()
	if rule == nil || rule.match == nil || !rule.match(s.Text) {
		return sent()
	}
	err := rule.then(ctx, sent)
	if errors.Is(err, locktest.ErrCut) {
		return fmt.Errorf("%w: %w", fault.ErrBroken, err)
	}
	return err
}

// Seam is a place between two writes of a stage: before a Redis command, or before a statement that
// begins with this text.
type Seam struct{ redis, statement string }

// The seams.
var (
	BeforeEnd      = Seam{"zrem", "UPDATE oversell_holds "}   // before a hold ends
	BeforeGiveBack = Seam{"incrby", "UPDATE oversell_items "} // before its units return to the stock
)

// Dies makes f fail at a seam, as if the process were killed there.
func (s *Site) Dies(at Seam, f func() error) { s.fails(at, locktest.Fail(locktest.ErrCut), f) }

// DiesOnce makes f fail only the first time that it reaches the seam.
func (s *Site) DiesOnce(at Seam, f func() error) {
	var died atomic.Bool
	s.fails(at, func(_ context.Context, send func() error) error {
		if died.CompareAndSwap(false, true) {
			return locktest.ErrCut
		}
		return send()
	}, f)
}

func (s *Site) fails(at Seam, kill locktest.Action, f func() error) {
	s.t.Helper()
	rule := s.Redis.On(locktest.Command(at.redis), -1, kill)
	s.SQL.On(func(statement string) bool { return strings.HasPrefix(statement, at.statement) }, kill)
	err := f()
	rule.Off()
	s.SQL.On(nil, nil)
	if !errors.Is(err, locktest.ErrCut) {
		s.t.Fatalf("got %v, want %v", err, locktest.ErrCut)
	}
}

// Locked calls f while another session has locked the row of a hold in a table, if the database has
// row locks and the stage has a row in that table.
func (s *Site) Locked(table string, h holds.Hold, f func()) {
	s.t.Helper()
	tx := s.DB
	if tx.Name() == "mysql" {
		tx = tx.Begin()
		defer tx.Rollback()
		where, args := "id = ?", []any{h.ID}
		if table == "oversell_hold_buyers" {
			where, args = "sale_id = ? AND buyer = ?", []any{h.SaleID, h.Buyer}
		}
		var one int
		if err := tx.Raw("SELECT 1 FROM "+table+" WHERE "+where+" FOR UPDATE", args...).Scan(&one).Error; err != nil {
			s.t.Fatal(err)
		}
	}
	f()
}
