package stock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/guard"
	"oversell/internal/stock"
)

// inDatabase returns the strategies that need only a database, and that the site's database
// supports.
func (s *site) inDatabase() []string {
	var names []string
	for _, strategy := range strategies() {
		if strategy.InDatabase() && (!strategy.NeedsMySQL() || s.db.Name() == "mysql") {
			names = append(names, strategy.Name)
		}
	}
	return names
}

// newDatabaseSite returns a site with its stock in MySQL or MariaDB.
func newDatabaseSite(t *testing.T) *site {
	t.Helper()
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "local")))
	s.keeper = stock.InDatabase
	return s
}

// The item's row names the keeper of its stock. A strategy that cannot use that keeper, or that
// would ignore units in holds, returns ErrLocation and takes nothing. On SQLite, the error names the
// databases that have what the strategy needs.
func TestStrategiesSayWhereTheyNeedTheStock(t *testing.T) {
	s := embeddedSite(t)
	service := s.instance(t, nil)
	for _, strategy := range strategies() {
		for keeper, wrong := range map[stock.Backend]bool{
			stock.InRedis:    strategy.InDatabase(),
			stock.InDatabase: strategy.InRedis() || strategy.NeedsMySQL(),
			stock.InHolds:    true,
		} {
			if !wrong {
				continue
			}
			s.sku, s.keeper = newSKU(), keeper
			s.put(t, service, 1)
			for range 2 { // the second request uses the cached item
				_, err := service.Deduct(t.Context(), s.request(strategy.Name, ""))
				named := keeper != stock.InDatabase || !strategy.NeedsMySQL() ||
					strings.HasSuffix(fmt.Sprint(err), "; use MySQL or MariaDB")
				if !errors.Is(err, stock.ErrLocation) || !named {
					t.Errorf("%s with the keeper %s: got %v", strategy.Name, keeper, err)
				}
			}
			wantStock(t, s.audit(t, service), 1, 1, 0, 0)
		}
	}
}

// Put may move the stock of an item from any keeper to any other.
func TestPutChangesTheKeeper(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service, other := s.instance(t, nil), s.instance(t, nil)
		keepers := []stock.Backend{stock.InHolds, stock.InRedis, stock.InHolds, stock.InDatabase, stock.InHolds}
		for i, keeper := range keepers {
			s.keeper = keeper
			s.put(t, service, int64(i+1))
			for _, each := range []*stock.Service{service, other} {
				if left, _, err := each.Left(t.Context(), s.sku); err != nil || left != int64(i+1) {
					t.Errorf("kept in %s: %d units left, %v; want %d", keeper, left, err, i+1)
				}
			}
		}
	})
}

func TestDatabaseStrategiesNeedNoRedis(t *testing.T) {
	server := backendtest.RestartableRedis(t)
	s := newSite(t, backendtest.DialRedis(t, server.URL), backendtest.DialDatabase(t, backendtest.Database(t, "local")))
	s.keeper = stock.InDatabase
	service := s.sale(t, 100)
	server.Kill()
	for _, strategy := range s.inDatabase() {
		if sold, _, _ := rush(t, s, 20, strategy, service); sold != 20 {
			t.Errorf("%s sold %d of 20", strategy, sold)
		}
	}
}

// interrupted makes another instance buy a unit while a holder does its work for the first time.
func interrupted(t *testing.T, s *site, other *stock.Service, strategy string) func(*stock.Config) {
	done := false
	return withWork(func(context.Context, string) (func(), error) {
		if !done {
			done = true
			s.buy(t, other, strategy)
		}
		return nil, nil
	})
}

// If another buyer has written the stock since a buyer read it, the buyer's write is refused, and the
// buyer reads again.
func TestVersionIsRefusedAfterAnotherWrite(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.keeper = stock.InDatabase
		other := s.instance(t, nil)
		service := s.instance(t, interrupted(t, s, other, "sql_version"))
		s.put(t, service, 10)
		if res := s.buy(t, service, "sql_version"); res.Lock.Attempts != 2 || res.Left != 8 {
			t.Errorf("%d attempts, %d left; want 2, 8", res.Lock.Attempts, res.Left)
		}
		wantStock(t, s.audit(t, service), 10, 8, 2, 2)
	})
}

// A buyer who has seen one unit left gets ErrSoldOut if another buyer takes it first.
func TestConditionalUpdateDecides(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.keeper = stock.InDatabase
		other := s.instance(t, nil)
		service := s.instance(t, interrupted(t, s, other, "sql_conditional"))
		s.put(t, service, 1)
		wantRefused(t, service, s.request("sql_conditional", ""), stock.ErrSoldOut)
		wantStock(t, s.audit(t, service), 1, 0, 1, 1)
	})
}

// park returns work that closes inside when it is first called, and always waits until gate is closed.
func park(inside, gate chan struct{}) stock.Work {
	first := sync.OnceFunc(func() { close(inside) })
	return func(context.Context, string) (func(), error) {
		first()
		<-gate
		return nil, nil
	}
}

// stopInWork begins a deduct. It closes inside when it reaches its work, and stops there until resume
// is called.
func stopInWork(t *testing.T, s *site, strategy string) (inside chan struct{}, resume func() error) {
	inside, gate := make(chan struct{}), make(chan struct{})
	service := s.instance(t, withWork(park(inside, gate)))
	holder := order(context.Background(), service, s.request(strategy, "")) // it may outlive the test
	return inside, func() error {
		close(gate)
		return (<-holder).err
	}
}

// While a holder is stopped no other buyer enters, and its write succeeds when it resumes.
func TestRowLockIsKeptByAStoppedHolder(t *testing.T) {
	for _, strategy := range []string{"sql_for_update", "sql_get_lock"} {
		t.Run(strategy, func(t *testing.T) {
			s := newDatabaseSite(t)
			other := s.instance(t, func(cfg *stock.Config) { cfg.Wait = 300 * time.Millisecond })
			s.put(t, other, 10)
			inside, resume := stopInWork(t, s, strategy)
			<-inside
			wantRefused(t, other, s.request(strategy, ""), stock.ErrBusy)
			if err := resume(); err != nil {
				t.Errorf("the stopped holder got %v", err)
			}
			s.buy(t, other, strategy)
			wantStock(t, s.audit(t, other), 10, 8, 2, 2)
		})
	}
}

// killConnections kills all other connections to the site's database.
func killConnections(t *testing.T, db *gorm.DB) {
	t.Helper()
	var ids []int64
	must(t, db.Raw("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = DATABASE()").
		Scan(&ids).Error)
	for _, id := range ids {
		_ = db.Exec("KILL ?", id).Error // the connection may have ended meanwhile
	}
}

// A lock that belongs to a connection is lost with it. The holder cannot write on another
// connection: its half-finished purchase is rolled back, and the next buyer enters.
func TestNamedLockEndsWithItsConnection(t *testing.T) {
	for _, strategy := range []string{"sql_get_lock", "sql_for_update"} {
		t.Run(strategy, func(t *testing.T) {
			s := newDatabaseSite(t)
			service := s.sale(t, 10)
			inside, resume := stopInWork(t, s, strategy)
			<-inside
			killConnections(t, s.db)
			s.buy(t, service, strategy)
			if err := resume(); err == nil {
				t.Error("a holder that has lost its connection has sold")
			}
			wantStock(t, s.audit(t, service), 10, 9, 1, 1)
		})
	}
}

// The token is checked when the stock is written. A holder whose lock has passed to another sells
// nothing, whether or not the next holder has written yet.
func TestLedgerRefusesAnOlderToken(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, unfenced := range []bool{false, true} {
			for _, keeper := range []stock.Backend{stock.InRedis, stock.InDatabase} {
				t.Run(fmt.Sprintf("%s, unfenced %v", keeper, unfenced), func(t *testing.T) {
					s.sku, s.keeper = newSKU(), keeper
					service := s.instance(t, nil)
					item := s.put(t, service, 10)
					late := s.holder(t, item, fencedBy{"test", 7}, unfenced)
					next := s.holder(t, item, fencedBy{"test", 8}, unfenced)
					left, err := late.Get(t.Context())
					if err != nil || left != 10 {
						t.Fatal(left, err)
					}
					if left, err = next.Get(t.Context()); err != nil || left != 10 {
						t.Fatal(left, err)
					}
					if err := late.Set(t.Context(), 9); errors.Is(err, stock.ErrFenced) == unfenced {
						t.Errorf("unfenced %v: the late holder's write got %v", unfenced, err)
					}
					if err := next.Set(t.Context(), 8); err != nil {
						t.Errorf("the next holder's write got %v", err)
					}
					if _, err := late.Get(t.Context()); errors.Is(err, stock.ErrFenced) == unfenced {
						t.Errorf("unfenced %v: the late holder's read got %v", unfenced, err)
					}
					if left, err := next.Get(t.Context()); err != nil || left != 8 {
						t.Errorf("%d left, %v; want 8", left, err)
					}
				})
			}
		}
	})
}

// tokenLock is a lock whose TryLock always succeeds, with a fixed token.
type tokenLock int64

func (tokenLock) TryLock(context.Context) (bool, error) { return true, nil }
func (tokenLock) Unlock(context.Context) error          { return nil }
func (l tokenLock) Token() int64                        { return int64(l) }

// fencedBy is a fencing token of a strategy's lock.
type fencedBy struct {
	strategy string
	token    int64
}

// holder returns the counter that a holder with this token gets.
func (s *site) holder(t *testing.T, item stock.Item, by fencedBy, unfenced bool) (c stock.Counter) {
	t.Helper()
	k := stock.Clients{Redis: s.rdb, DB: s.db, Unfenced: unfenced, Strategy: by.strategy}
	g := stock.Exclusive(k, &guard.Distributed{
		New:    func(string) guard.Lock { return tokenLock(by.token) },
		Policy: guard.Fixed{Delay: time.Millisecond},
	})
	at := stock.Location{SKU: item.SKU, SaleID: item.SaleID, Generation: item.Generation}
	if s.keeper == stock.InRedis {
		at.Key = "oversell:{" + item.SKU + "}:stock:" + item.SaleID + ":" + item.Generation
	}
	_, err := g.Do(t.Context(), at, guard.Entry{}, func(_ context.Context, got stock.Counter) error {
		c = got
		return nil
	})
	must(t, err)
	return c
}

// A transaction that the server rolls back because of a conflict is repeated, and its order is
// written once.
func TestDeadlockIsTriedAgain(t *testing.T) {
	deadlock := &mysql.MySQLError{Number: 1213, Message: "Deadlock found when trying to get lock; try restarting " +
		"transaction"}
	s := newDatabaseSite(t)
	service := s.instance(t, nil)
	var left atomic.Int32
	s.beforeOrders(func(tx *gorm.DB) {
		if left.Add(-1) >= 0 {
			_ = tx.AddError(deadlock)
		}
	})
	for _, strategy := range append(s.inDatabase(), "v6_watchdog") {
		s.sku = newSKU()
		s.put(t, service, 10)
		left.Store(3)
		if s.buy(t, service, strategy); left.Load() >= 0 {
			t.Errorf("%s: %d deadlocks too few", strategy, left.Load()+1)
		}
		wantStock(t, s.audit(t, service), 10, 9, 1, 1)
	}
}

// An item may be sold under one lock after another. A token is compared only with tokens of the
// same lock.
func TestTokensOfDifferentLocksAreNotCompared(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, keeper := range []stock.Backend{stock.InRedis, stock.InDatabase} {
			s.sku, s.keeper = newSKU(), keeper
			service := s.instance(t, nil)
			item := s.put(t, service, 10)
			for i, by := range []fencedBy{{"large", 1e15}, {"small", 1}, {"large", 1e15}, {"small", 2}} {
				c := s.holder(t, item, by, false)
				left, err := c.Get(t.Context())
				if err != nil || left != int64(10-i) {
					t.Fatalf("%s, %v: %d left, %v; want %d", keeper, by, left, err, 10-i)
				}
				if err := c.Set(t.Context(), left-1); err != nil {
					t.Errorf("%s, %v: %v", keeper, by, err)
				}
			}
			late := s.holder(t, item, fencedBy{"small", 1}, false)
			if _, err := late.Get(t.Context()); !errors.Is(err, stock.ErrFenced) {
				t.Errorf("%s: a late holder got %v", keeper, err)
			}
		}
	})
}

// If a new sale begins while a buyer is at work, the buyer buys in the new sale. No key of the ended
// sale stays in Redis, even if a late holder writes once more.
func TestBuyerGoesOnInTheNextSale(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for strategy, keeper := range map[string]stock.Backend{
			"v4_lua": stock.InRedis, "v9_cohort": stock.InRedis, "watch": stock.InRedis, "lua_atomic": stock.InRedis,
			"v8_fenced": stock.InDatabase, "sql_conditional": stock.InDatabase, "sql_version": stock.InDatabase,
		} {
			s.sku, s.keeper = newSKU(), keeper
			var service *stock.Service
			began := false
			service = s.instance(t, withWork(func(context.Context, string) (func(), error) {
				if !began {
					began = true
					s.put(t, service, 20)
				}
				return nil, nil
			}))
			last := s.put(t, service, 10)
			s.buy(t, service, strategy)
			if keys := s.rdb.Keys(t.Context(), "oversell:{"+s.sku+"}:stock:"+last.SaleID+"*").Val(); len(keys) > 0 {
				t.Errorf("%s: %v is left of the last sale", strategy, keys)
			}
			wantStock(t, s.audit(t, service), 20, 19, 1, 1)
		}
	})
}
