package stock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks"
	"oversell/internal/stock"
)

// inDatabase are the strategies that work in the database alone, as far as the
// site's can.
func (s *site) inDatabase() []string {
	var names []string
	for _, strategy := range strategies() {
		if strategy.InDatabase() && (!strategy.NeedsMySQL() || s.db.Name() == "mysql") {
			names = append(names, strategy.Name)
		}
	}
	return names
}

// newDatabaseSite is a site whose stock is in a MySQL or MariaDB.
func newDatabaseSite(t *testing.T) *site {
	t.Helper()
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "local")))
	s.keeper = stock.InDatabase
	return s
}

// A crowd of several instances buys what there is, and learns of it. None of them
// needs Redis, once the item is there.
func TestDatabaseSellsExactly(t *testing.T) {
	const units, buyers = 200, 300
	eachSite(t, func(t *testing.T, s *site) {
		s.keeper = stock.InDatabase
		a, b := s.instance(t, nil), s.instance(t, nil)
		for _, strategy := range s.inDatabase() {
			t.Run(strategy, func(t *testing.T) {
				s.sku = newSKU()
				s.put(t, a, units)
				if sold, soldOut, _ := rush(t, s, buyers, strategy, a, b); sold != units || soldOut != buyers-units {
					t.Errorf("%d sold and %d turned away, want %d and %d", sold, soldOut, units, buyers-units)
				}
				wantStock(t, s.audit(t, b), units, 0, units, units)
			})
		}
	})
}

// The item's row says where its stock is, and a strategy that cannot take it from
// there says so, and takes nothing.
func TestStrategiesSayWhereTheyNeedTheStock(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		for _, strategy := range strategies() {
			for keeper, wrong := range map[stock.Keeper]bool{
				stock.InRedis:    strategy.InDatabase(),
				stock.InDatabase: strategy.InRedis() || strategy.NeedsMySQL() && s.db.Name() != "mysql",
			} {
				s.sku, s.keeper = newSKU(), keeper
				s.put(t, service, 1)
				_, err := service.Deduct(t.Context(), s.wish(strategy.Name, ""))
				if errors.Is(err, stock.ErrPlace) != wrong || !wrong && err != nil {
					t.Errorf("%s with the stock in %s: got %v", strategy.Name, keeper, err)
				}
				sold := int64(1)
				if wrong {
					sold = 0
				}
				wantStock(t, s.audit(t, service), 1, 1-sold, sold, sold)
			}
		}
	})
}

func TestDatabaseStrategiesNeedNoRedis(t *testing.T) {
	server := backendtest.RestartableRedis(t)
	s := newSite(t, backendtest.DialRedis(t, server.URL), backendtest.DialDatabase(t, backendtest.Database(t, "local")))
	s.keeper = stock.InDatabase
	service := s.instance(t, nil)
	s.put(t, service, 100)
	server.Kill()
	for _, strategy := range s.inDatabase() {
		if sold, _, _ := rush(t, s, 20, strategy, service); sold != 20 {
			t.Errorf("%s sold %d of 20", strategy, sold)
		}
	}
}

// interrupted is work that lets somebody else buy in the middle of it, once.
func interrupted(t *testing.T, s *site, other *stock.Service, strategy string) func(*stock.Config) {
	done := false
	return withWork(func(context.Context, string) (func(), error) {
		if !done {
			done = true
			if _, err := other.Deduct(t.Context(), s.wish(strategy, "")); err != nil {
				t.Error(err)
			}
		}
		return nil, nil
	})
}

// Whoever writes on the strength of what he read is refused if somebody else has
// written since, and reads again.
func TestVersionIsRefusedAfterAnotherWrite(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.keeper = stock.InDatabase
		other := s.instance(t, nil)
		service := s.instance(t, interrupted(t, s, other, "sql_version"))
		s.put(t, service, 10)
		res, err := service.Deduct(t.Context(), s.wish("sql_version", ""))
		if err != nil || res.Lock.Attempts != 2 || res.Left != 8 {
			t.Errorf("%d attempts, %d left, %v; want 2, 8", res.Lock.Attempts, res.Left, err)
		}
		wantStock(t, s.audit(t, service), 10, 8, 2, 2)
	})
}

// The look at the stock is no promise: the last unit may go to somebody else.
func TestConditionalUpdateDecides(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.keeper = stock.InDatabase
		other := s.instance(t, nil)
		service := s.instance(t, interrupted(t, s, other, "sql_conditional"))
		s.put(t, service, 1)
		if _, err := service.Deduct(t.Context(), s.wish("sql_conditional", "")); !errors.Is(err, stock.ErrSoldOut) {
			t.Errorf("got %v, want %v", err, stock.ErrSoldOut)
		}
		wantStock(t, s.audit(t, service), 1, 0, 1, 1)
	})
}

// park is work that closes inside when it is first done, and waits for the gate.
func park(inside, gate chan struct{}) stock.Work {
	first := sync.OnceFunc(func() { close(inside) })
	return func(context.Context, string) (func(), error) {
		first()
		<-gate
		return nil, nil
	}
}

// stopped has a buyer stop in its work, until goOn is called.
func stopped(t *testing.T, s *site, strategy string) (inside chan struct{}, goOn func() error) {
	inside, gate, outcome := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	service := s.instance(t, withWork(park(inside, gate)))
	go func() {
		_, err := service.Deduct(context.WithoutCancel(t.Context()), s.wish(strategy, ""))
		outcome <- err
	}()
	return inside, func() error {
		close(gate)
		return <-outcome
	}
}

// However long a holder is stopped, nobody else comes in, and what it then writes
// is not too late.
func TestRowLockIsKeptByAStoppedHolder(t *testing.T) {
	for _, strategy := range []string{"sql_for_update", "sql_get_lock"} {
		t.Run(strategy, func(t *testing.T) {
			s := newDatabaseSite(t)
			impatient := s.instance(t, func(cfg *stock.Config) { cfg.Wait = 300 * time.Millisecond })
			s.put(t, impatient, 10)
			inside, goOn := stopped(t, s, strategy)
			<-inside
			if _, err := impatient.Deduct(t.Context(), s.wish(strategy, "")); !errors.Is(err, stock.ErrBusy) {
				t.Errorf("the next one got %v, want %v", err, stock.ErrBusy)
			}
			if err := goOn(); err != nil {
				t.Errorf("the stopped one got %v", err)
			}
			if _, err := impatient.Deduct(t.Context(), s.wish(strategy, "")); err != nil {
				t.Errorf("after it the next one got %v", err)
			}
			wantStock(t, s.audit(t, impatient), 10, 8, 2, 2)
		})
	}
}

// killConnections ends all connections of the site's database user but the one
// that asks.
func killConnections(t *testing.T, db *gorm.DB) {
	t.Helper()
	var ids []int64
	if err := db.Raw("SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND db = DATABASE()").Scan(&ids).Error; err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		_ = db.Exec("KILL ?", id).Error // it may have ended meanwhile
	}
}

// A lock that belongs to a connection is lost with it, and its holder cannot
// write by another: half a sale is undone, and the next one comes in.
func TestNamedLockEndsWithItsConnection(t *testing.T) {
	for _, strategy := range []string{"sql_get_lock", "sql_for_update"} {
		t.Run(strategy, func(t *testing.T) {
			s := newDatabaseSite(t)
			service := s.instance(t, nil)
			s.put(t, service, 10)
			inside, goOn := stopped(t, s, strategy)
			<-inside
			killConnections(t, s.db)
			if _, err := service.Deduct(t.Context(), s.wish(strategy, "")); err != nil {
				t.Errorf("the next one got %v", err)
			}
			if err := goOn(); err == nil {
				t.Error("the one without a connection has sold")
			}
			wantStock(t, s.audit(t, service), 10, 9, 1, 1)
		})
	}
}

// The token is checked where the row is written. A holder that comes late sells
// nothing, whether or not the next one has written yet.
func TestLedgerRefusesAnOlderToken(t *testing.T) {
	for _, unfenced := range []bool{false, true} {
		eachSite(t, func(t *testing.T, s *site) {
			for _, keeper := range []stock.Keeper{stock.InRedis, stock.InDatabase} {
				t.Run(string(keeper), func(t *testing.T) {
					s.sku, s.keeper = newSKU(), keeper
					service := s.instance(t, nil)
					item := s.put(t, service, 10)
					late, next := s.holder(t, item, 7, unfenced), s.holder(t, item, 8, unfenced)
					left, err := late.Get(t.Context())
					if err != nil || left != 10 {
						t.Fatal(left, err)
					}
					if left, err = next.Get(t.Context()); err != nil || left != 10 {
						t.Fatal(left, err)
					}
					if err := late.Set(t.Context(), 9); errors.Is(err, stock.ErrFenced) == unfenced {
						t.Errorf("unfenced %v: the late one's write got %v", unfenced, err)
					}
					if err := next.Set(t.Context(), 8); err != nil {
						t.Errorf("the next one's write got %v", err)
					}
					if _, err := late.Get(t.Context()); errors.Is(err, stock.ErrFenced) == unfenced {
						t.Errorf("unfenced %v: the late one's read got %v", unfenced, err)
					}
					if left, err := next.Get(t.Context()); err != nil || left != 8 {
						t.Errorf("%d left, %v; want 8", left, err)
					}
				})
			}
		})
	}
}

// tokenLock is a lock that is always had, with a token.
type tokenLock int64

func (tokenLock) TryLock(context.Context) (bool, error) { return true, nil }
func (tokenLock) Unlock(context.Context) error          { return nil }
func (l tokenLock) Token() int64                        { return int64(l) }

// holder returns the counter that a section with the token works with.
func (s *site) holder(t *testing.T, item stock.Item, token int64, unfenced bool) stock.Counter {
	t.Helper()
	return s.holderBy(t, item, fencedBy{"test", token}, unfenced)
}

// fencedBy is a token of a strategy's lock.
type fencedBy struct {
	strategy string
	token    int64
}

func (s *site) holderBy(t *testing.T, item stock.Item, by fencedBy, unfenced bool) (c stock.Counter) {
	t.Helper()
	k := stock.Keepers{Redis: s.rdb, DB: s.db, Unfenced: unfenced, Strategy: by.strategy}
	guard := stock.Exclusive(k, &locks.Distributed{
		New:    func(string) locks.Lock { return tokenLock(by.token) },
		Policy: locks.Fixed{Delay: time.Millisecond},
	})
	at := stock.Place{SKU: item.SKU, SaleID: item.SaleID, Generation: item.Generation}
	if s.keeper == stock.InRedis {
		at.Key = "oversell:{" + item.SKU + "}:stock:" + item.SaleID + ":" + item.Generation
	}
	_, err := guard.Do(t.Context(), at, locks.Entry{Wait: t.Context()}, func(_ context.Context, got stock.Counter) error {
		c = got
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A transaction that the server undid, because it was in another's way, is done
// again, and its order is written once.
func TestDeadlockIsTriedAgain(t *testing.T) {
	deadlock := &mysql.MySQLError{Number: 1213, Message: "Deadlock found when trying to get lock; try restarting transaction"}
	s := newDatabaseSite(t)
	service := s.instance(t, nil)
	var left atomic.Int32
	err := s.db.Callback().Create().Before("gorm:create").Register("test:deadlock", func(tx *gorm.DB) {
		if tx.Statement.Table == "oversell_orders" && left.Add(-1) >= 0 {
			_ = tx.AddError(deadlock)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, strategy := range append(s.inDatabase(), "v6_watchdog") {
		s.sku = newSKU()
		s.put(t, service, 10)
		left.Store(3)
		if _, err := service.Deduct(t.Context(), s.wish(strategy, "")); err != nil || left.Load() >= 0 {
			t.Errorf("%s: got %v, %d deadlocks too few", strategy, err, left.Load()+1)
		}
		wantStock(t, s.audit(t, service), 10, 9, 1, 1)
	}
}

// A server does not let anybody wait for a row for ever. Who still wants to waits
// on.
func TestRowLockOutlivesTheServersPatience(t *testing.T) {
	rdb := backendtest.DialRedis(t, backendtest.Redis(t, "embedded"))
	s := newSite(t, rdb, backendtest.DialDatabase(t, backendtest.Database(t, "local")+"?innodb_lock_wait_timeout=1"))
	s.keeper = stock.InDatabase
	service := s.instance(t, nil)
	s.put(t, service, 10)
	inside, goOn := stopped(t, s, "sql_for_update")
	<-inside
	time.AfterFunc(1200*time.Millisecond, func() {
		if err := goOn(); err != nil {
			t.Errorf("the holder got %v", err)
		}
	})
	res, err := service.Deduct(t.Context(), s.wish("sql_for_update", ""))
	if err != nil || res.Lock.Attempts < 2 {
		t.Errorf("%d attempts, %v; want a second one, and the unit", res.Lock.Attempts, err)
	}
	wantStock(t, s.audit(t, service), 10, 8, 2, 2)
}

// Who wanted more than was left does not speak for those who want less.
func TestTooFewForOneIsNotTooFewForAll(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.keeper = stock.InDatabase
		other := s.instance(t, nil)
		inside, gate := make(chan struct{}), make(chan struct{})
		service := s.instance(t, withWork(func(context.Context, string) (func(), error) {
			close(inside)
			<-gate
			return nil, nil
		}))
		s.put(t, service, 6)
		outcome := make(chan error, 1)
		go func() {
			greedy := s.wish("sql_conditional", "")
			greedy.Quantity = 5
			_, err := service.Deduct(context.WithoutCancel(t.Context()), greedy)
			outcome <- err
		}()
		<-inside
		if sold, _, _ := rush(t, s, 3, "sql_conditional", other); sold != 3 {
			t.Errorf("%d sold, want 3", sold)
		}
		close(gate)
		if err := <-outcome; !errors.Is(err, stock.ErrSoldOut) || !strings.Contains(err.Error(), "3 left") {
			t.Errorf("who wanted 5 of 3 got %v", err)
		}
		if sold, _, _ := rush(t, s, 3, "sql_conditional", other); sold != 3 {
			t.Errorf("%d sold of the last 3", sold)
		}
		wantStock(t, s.audit(t, other), 6, 0, 6, 6)
	})
}

// A sale that begins while a buyer of the last one is at work is what he buys in.
func TestBuyerGoesOnInTheNextSale(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.eachWay(t, func(t *testing.T, w way) {
			if !w.holds() || w.strategy == "sql_for_update" { // which keeps the row, and the sale with it
				return
			}
			var service *stock.Service
			began := false
			service = s.instance(t, withWork(func(context.Context, string) (func(), error) {
				if !began {
					began = true
					s.put(t, service, 20)
				}
				return nil, nil
			}))
			s.put(t, service, 10)
			if _, err := service.Deduct(t.Context(), s.wish(w.strategy, "")); err != nil {
				t.Errorf("got %v", err)
			}
			wantStock(t, s.audit(t, service), 20, 19, 1, 1)
		})
	})
}

// Tokens of different locks cannot be compared, and an item may be sold by one lock
// after the other.
func TestTokensOfDifferentLocksAreNotCompared(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, keeper := range []stock.Keeper{stock.InRedis, stock.InDatabase} {
			s.sku, s.keeper = newSKU(), keeper
			service := s.instance(t, nil)
			item := s.put(t, service, 10)
			for i, by := range []fencedBy{{"large", 1e15}, {"small", 1}, {"large", 1e15}, {"small", 2}} {
				c := s.holderBy(t, item, by, false)
				left, err := c.Get(t.Context())
				if err != nil || left != int64(10-i) {
					t.Fatalf("%s, %v: %d left, %v; want %d", keeper, by, left, err, 10-i)
				}
				if err := c.Set(t.Context(), left-1); err != nil {
					t.Errorf("%s, %v: %v", keeper, by, err)
				}
			}
			late := s.holderBy(t, item, fencedBy{"small", 1}, false)
			if _, err := late.Get(t.Context()); !errors.Is(err, stock.ErrFenced) {
				t.Errorf("%s: a late one got %v", keeper, err)
			}
		}
	})
}

// Of a sale that is over nothing stays in Redis, also when a holder comes to write
// it once more.
func TestLateWriteBringsNothingBack(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, strategy := range []string{"v4_lua", "v9_cohort", "watch", "lua_atomic"} {
			s.sku, s.keeper = newSKU(), stock.InRedis
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
			if _, err := service.Deduct(t.Context(), s.wish(strategy, "")); err != nil {
				t.Errorf("%s: %v", strategy, err)
			}
			if keys := s.rdb.Keys(t.Context(), "oversell:{"+s.sku+"}:stock:"+last.SaleID+"*").Val(); len(keys) > 0 {
				t.Errorf("%s: %v is left of the last sale", strategy, keys)
			}
			wantStock(t, s.audit(t, service), 20, 19, 1, 1)
		}
	})
}

// Waiting for the row, or for the name, is not holding it.
func TestWaitingForTheDatabaseIsNoHold(t *testing.T) {
	for _, strategy := range []string{"sql_for_update", "sql_get_lock"} {
		s := newDatabaseSite(t)
		service := s.instance(t, nil)
		s.put(t, service, 10)
		inside, goOn := stopped(t, s, strategy)
		<-inside
		const wait = 300 * time.Millisecond
		time.AfterFunc(wait, func() {
			if err := goOn(); err != nil {
				t.Error(err)
			}
		})
		res, err := service.Deduct(t.Context(), s.wish(strategy, ""))
		if err != nil || res.Lock.Waited < wait/2 || res.Lock.Held > res.Lock.Waited {
			t.Errorf("%s: waited %v, held %v, %v", strategy, res.Lock.Waited, res.Lock.Held, err)
		}
	}
}
