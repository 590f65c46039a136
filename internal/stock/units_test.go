package stock_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/stock"
	"oversell/internal/stock/units"
)

// withPool makes pools so small that a rush fills them many times.
func withPool(db *gorm.DB, size int64) func(*stock.Config) {
	return func(cfg *stock.Config) { cfg.Guards["sql_units"] = stock.Units(db, size) }
}

// poolSize is the size of the pools in these tests.
const poolSize = 10

// unitSite returns a site in MySQL or MariaDB with small pools, and instances of it.
func unitSite(t *testing.T, instances int) (*site, []*stock.Service) {
	t.Helper()
	s := newDatabaseSite(t)
	all := make([]*stock.Service, instances)
	for i := range all {
		all[i] = s.instance(t, withPool(s.db, poolSize))
	}
	return s, all
}

// where are the units of an item: rows of the pool, units in the item's row, units sold.
type where struct{ Pooled, Remaining, Sold int64 }

// units reads where the units are, in one snapshot.
func (s *site) units(t *testing.T) (w where) {
	t.Helper()
	err := s.db.Raw("SELECT (SELECT COUNT(*) FROM oversell_units WHERE sku = ?) AS pooled, "+
		"(SELECT COALESCE(SUM(quantity), 0) FROM oversell_orders o WHERE o.sku = i.sku AND o.sale_id = i.sale_id) AS sold, "+
		"remaining FROM oversell_items i WHERE sku = ?", s.sku, s.sku).Scan(&w).Error
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// lockUnits locks n units of the item like a claim that is not committed yet, and returns
// the transaction.
func (s *site) lockUnits(t *testing.T, item stock.Item, n int64) *gorm.DB {
	t.Helper()
	tx := s.db.Begin(&sql.TxOptions{Isolation: sql.LevelReadCommitted})
	t.Cleanup(func() { tx.Rollback() })
	if err := (units.Pool{SKU: item.SKU, Generation: s.generation(t)}).Claim(tx, n); err != nil {
		t.Fatal(err)
	}
	return tx
}

// generation is the current generation of the site's item.
func (s *site) generation(t *testing.T) string {
	t.Helper()
	var item stock.Item
	if err := s.db.Where("sku = ?", s.sku).Take(&item).Error; err != nil {
		t.Fatal(err)
	}
	return item.Generation
}

// Nobody waits for a unit that another buyer has locked, as long as others are free. Only
// the buyers of the last units wait, because a claim may be rolled back.
func TestLockedUnitsAreSkipped(t *testing.T) {
	for _, ends := range []string{"rollback", "commit"} {
		t.Run(ends, func(t *testing.T) {
			s, services := unitSite(t, 2)
			item := s.put(t, services[0], 30)
			if sold, _, _ := rush(t, s, 1, "sql_units", services...); sold != 1 {
				t.Fatal("the first buyer, who fills the pool, got nothing")
			}
			claim := s.lockUnits(t, item, 3)
			if sold, _, _ := rush(t, s, 26, "sql_units", services...); sold != 26 {
				t.Fatalf("%d sold beside 3 locked units, want 26", sold)
			}
			last := order(t.Context(), services[1], s.request("sql_units", ""))
			select {
			case o := <-last:
				t.Fatalf("the last buyer got %v while the units were locked", o.err)
			case <-time.After(100 * time.Millisecond):
			}
			if ends == "rollback" {
				claim.Rollback()
				if o := <-last; o.err != nil {
					t.Errorf("the last buyer got %v, want a unit that was given back", o.err)
				}
				wantStock(t, s.audit(t, services[0]), 30, 2, 28, 28)
				return
			}
			claim.Commit()
			if o := <-last; !errors.Is(o.err, stock.ErrSoldOut) {
				t.Errorf("the last buyer got %v, want %v", o.err, stock.ErrSoldOut)
			}
		})
	}
}

// A claim that does not end, however large, keeps nobody from the units that are not in the pool.
func TestLongClaimOfTheWholePool(t *testing.T) {
	const stocked = 3 * poolSize
	s, services := unitSite(t, 2)
	item := s.put(t, services[0], stocked)
	if sold, _, _ := rush(t, s, 1, "sql_units", services...); sold != 1 {
		t.Fatal("the first buyer, who fills the pool, got nothing")
	}
	claim := s.lockUnits(t, item, poolSize-1)
	if sold, _, _ := rush(t, s, stocked-poolSize, "sql_units", services...); sold != stocked-poolSize {
		t.Errorf("%d sold beside a claim of the whole pool, want %d", sold, stocked-poolSize)
	}
	claim.Rollback()
	if sold, _, _ := rush(t, s, stocked, "sql_units", services...); sold != poolSize-1 {
		t.Errorf("%d sold when the claim was given up, want its %d", sold, poolSize-1)
	}
	wantStock(t, s.audit(t, services[0]), stocked, 0, stocked, stocked)
}

// aside calls f with a site that has a connection of its own, which it gets however many of
// the others are in use.
func (s *site) aside(t *testing.T, f func(aside *site)) {
	t.Helper()
	err := s.db.Connection(func(conn *gorm.DB) error {
		one := *s
		one.db = conn.Session(&gorm.Session{NewDB: true})
		f(&one)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Pool, item's row and orders have all units of the sale together at every commit, while a
// crowd at several shops empties and fills the pool. The pool has no more rows than its size and
// those of the claims under way. Each buyer looks before its order is written.
func TestPoolItemAndOrdersHaveAllUnits(t *testing.T) {
	const stocked, buyers, most = 150, 200, poolSize + 3*16
	s, services := unitSite(t, 3)
	s.put(t, services[0], stocked)
	var sold, soldOut, looks int
	s.aside(t, func(aside *site) {
		var mu sync.Mutex
		stop := s.beforeOrders(func(*gorm.DB) {
			mu.Lock()
			defer mu.Unlock()
			looks++
			w := aside.units(t)
			if w.Pooled+w.Remaining+w.Sold != stocked || w.Pooled > most {
				t.Errorf("%+v do not make %d with at most %d in the pool", w, stocked, most)
			}
		})
		defer stop()
		sold, soldOut, _ = rush(t, s, buyers, "sql_units", services...)
	})
	if looks < stocked {
		t.Errorf("%d looks during %d sales", looks, stocked)
	}
	if sold != stocked || soldOut != buyers-stocked {
		t.Errorf("%d sold and %d refused, want %d and %d", sold, soldOut, stocked, buyers-stocked)
	}
	wantStock(t, s.audit(t, services[1]), stocked, 0, stocked, stocked)
}

// Buyers that wait for one item's units, or for its row, leave the connections to the buyers
// of other items, however many they are.
func TestWaitingForOneItemKeepsNobodyFromAnother(t *testing.T) {
	const crowd = 40 // more than the claims that a shop makes at once
	for _, locked := range []string{"units", "row"} {
		t.Run(locked, func(t *testing.T) {
			s, _ := unitSite(t, 0)
			var inside atomic.Int64
			service := s.instance(t, func(cfg *stock.Config) {
				withPool(s.db, poolSize)(cfg)
				cfg.Inside = func(_ string, step int) { inside.Add(int64(step)) }
			})
			other := *s
			other.sku = newSKU()
			other.put(t, service, 1)
			item := s.put(t, service, poolSize+crowd)
			if sold, _, _ := rush(t, s, 1, "sql_units", service); sold != 1 {
				t.Fatal("the first buyer, who fills the pool, got nothing")
			}
			stopped := s.lockUnits(t, item, poolSize-1)
			if locked == "row" {
				if err := stopped.Exec("UPDATE oversell_items SET name = 'locked' WHERE sku = ?", s.sku).Error; err != nil {
					t.Fatal(err)
				}
			} else {
				s.emptyRow(t)
			}
			all := make([]<-chan outcome, crowd)
			for i := range all {
				all[i] = order(t.Context(), service, s.request("sql_units", ""))
			}
			for deadline := time.Now().Add(30 * time.Second); inside.Load() < crowd; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%d of %d buyers have begun to claim", inside.Load(), crowd)
				}
			}
			if _, err := service.Deduct(t.Context(), other.request("sql_units", "")); err != nil {
				t.Errorf("the buyer of another item got %v", err)
			}
			if inside.Load() < crowd {
				t.Errorf("%d of %d buyers still wait", inside.Load(), crowd)
			}
			stopped.Rollback()
			for _, one := range all {
				if o := <-one; o.err != nil && !errors.Is(o.err, stock.ErrSoldOut) {
					t.Errorf("a buyer that waited got %v", o.err)
				}
			}
		})
	}
}

// emptyRow leaves no units in the item's row, as if the sale had begun with those of the pool.
func (s *site) emptyRow(t *testing.T) {
	t.Helper()
	if err := s.db.Exec("UPDATE oversell_items SET remaining = 0 WHERE sku = ?", s.sku).Error; err != nil {
		t.Fatal(err)
	}
}

// An order gets all its units or none, also if it wants more than the pool has.
func TestClaimOfManyUnits(t *testing.T) {
	s, services := unitSite(t, 1)
	s.put(t, services[0], 3*poolSize)
	for i, c := range []struct{ quantity, left int64 }{{2 * poolSize, poolSize}, {7, 3}, {4, 3}, {3, 0}, {1, 0}} {
		req := s.request("sql_units", "")
		req.Quantity = c.quantity
		res, err := services[0].Deduct(t.Context(), req)
		if refused := i == 2 || i == 4; errors.Is(err, stock.ErrSoldOut) != refused || !refused && err != nil {
			t.Errorf("%d units: got %v", c.quantity, err)
		}
		if w := s.units(t); w.Pooled+w.Remaining != c.left || res.Left != c.left {
			t.Errorf("%d units: %+v, and the buyer saw %d left; want %d", c.quantity, w, res.Left, c.left)
		}
	}
}

// Units of an earlier sale cannot be claimed: a buyer that was at work when the next sale
// began buys in that.
func TestUnitsOfAnEarlierSaleAreGone(t *testing.T) {
	s, services := unitSite(t, 1)
	s.put(t, services[0], 5)
	rush(t, s, 1, "sql_units", services...)
	inside, resume := stopInWork(t, s, "sql_units")
	<-inside
	old := units.Pool{SKU: s.sku, Generation: s.generation(t)}
	s.put(t, services[0], 8)
	if err := old.Claim(s.db, 1); !errors.Is(err, units.ErrFew) {
		t.Errorf("a claim in the earlier sale got %v, want %v", err, units.ErrFew)
	}
	if err := resume(); err != nil {
		t.Errorf("the buyer of the earlier sale got %v", err)
	}
	wantStock(t, s.audit(t, services[0]), 8, 7, 1, 1)
}

// changes are what ends a generation, or the sale.
func changes() map[string]func(s *site, service *stock.Service) error {
	return map[string]func(s *site, service *stock.Service) error{
		"repair": func(s *site, service *stock.Service) error {
			_, err := service.Repair(context.Background(), s.sku)
			return err
		},
		"put": func(s *site, service *stock.Service) error {
			_, err := service.Put(context.Background(), stock.Item{SKU: s.sku, Initial: 9, Keeper: stock.InDatabase})
			return err
		},
		"delete": func(s *site, service *stock.Service) error { return service.Delete(context.Background(), s.sku) },
	}
}

// PUT, DELETE and a repair wait for a claim that is under way, and then count its order or
// its units, never both.
func TestChangesWaitForClaims(t *testing.T) {
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			s, services := unitSite(t, 1)
			item := s.put(t, services[0], 9)
			rush(t, s, 1, "sql_units", services...)
			claim := s.lockUnits(t, item, 2)
			changed := make(chan error, 1)
			go func() { changed <- change(s, services[0]) }()
			s.waitForDrain(t)
			sold := stock.Order{ID: "claimed-" + s.sku, SKU: s.sku, SaleID: item.SaleID, Quantity: 2, Strategy: "sql_units", CreatedAt: time.Now()}
			if err := claim.Create(&sold).Error; err != nil {
				t.Fatal(err)
			}
			if err := claim.Commit().Error; err != nil {
				t.Fatal(err)
			}
			if err := <-changed; err != nil {
				t.Fatal(err)
			}
			switch name {
			case "repair":
				wantStock(t, s.audit(t, services[0]), 9, 6, 3, 2)
			case "put":
				wantStock(t, s.audit(t, services[0]), 9, 9, 0, 0)
			case "delete":
				var rows int64
				s.db.Raw("SELECT (SELECT COUNT(*) FROM oversell_units WHERE sku = ?) + (SELECT COUNT(*) FROM oversell_orders WHERE sku = ?)", s.sku, s.sku).Scan(&rows)
				if rows != 0 {
					t.Errorf("%d rows of units and orders are left", rows)
				}
			}
		})
	}
}

// A change drains the pool in a transaction that sees what others commit meanwhile: it is READ
// COMMITTED, and so does not lock the gaps to the pools of other items, as the tests of package
// units show.
func TestChangesDrainAtReadCommitted(t *testing.T) {
	for name, change := range changes() {
		t.Run(name, func(t *testing.T) {
			s, services := unitSite(t, 1)
			s.put(t, services[0], 9)
			rush(t, s, 1, "sql_units", services...)
			beside := *s
			beside.sku = newSKU()
			beside.put(t, services[0], 9)
			drains := 0
			defer s.beforeDeletes(func(tx *gorm.DB) {
				if tx.Statement.Table != "oversell_units" {
					return
				}
				drains++
				in := beside
				in.db = tx.Session(&gorm.Session{NewDB: true})
				before := in.units(t).Remaining
				if err := s.db.Exec("UPDATE oversell_items SET remaining = remaining - 1 WHERE sku = ?", beside.sku).Error; err != nil {
					t.Error(err)
				}
				if now := in.units(t).Remaining; now != before-1 {
					t.Errorf("the transaction reads %d units of another item after a sale of 1 of %d", now, before)
				}
			})()
			if err := change(s, services[0]); err != nil || drains == 0 {
				t.Errorf("got %v after %d drains", err, drains)
			}
		})
	}
}

// waitForDrain returns when a change removes units and has not finished: it waits for a claim.
func (s *site) waitForDrain(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var draining int64
		if err := s.db.Raw("SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND info LIKE 'DELETE FROM `oversell_units`%'").Scan(&draining).Error; err != nil {
			t.Fatal(err)
		}
		if draining > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody waits for the claim")
		}
	}
}

// A strategy that does not know the pool finds the pool's units in the item's row, because
// they go back there before it begins.
func TestFamiliesOfOneItemSeeThePoolsUnits(t *testing.T) {
	s, services := unitSite(t, 2)
	s.put(t, services[0], 40)
	left := int64(40)
	for _, strategy := range []string{"sql_units", "sql_conditional", "sql_units", "sql_version", "v8_fenced", "sql_units", "sql_for_update", "sql_units"} {
		res, err := services[left%2].Deduct(t.Context(), s.request(strategy, ""))
		if left--; err != nil || res.Left != left {
			t.Errorf("%s: %v with %d left, want %d", strategy, err, res.Left, left)
		}
		if w := s.units(t); strategy != "sql_units" && w.Pooled != 0 {
			t.Errorf("%s began beside %d units in the pool", strategy, w.Pooled)
		}
	}
	var all sync.WaitGroup
	total := make(chan int, 3)
	for _, strategy := range []string{"sql_units", "sql_conditional", "v8_fenced"} {
		all.Go(func() {
			sold, _, _ := rush(t, s, 20, strategy, services...)
			total <- sold
		})
	}
	all.Wait()
	close(total)
	sum := int64(0)
	for sold := range total {
		sum += int64(sold)
	}
	if sum != left {
		t.Errorf("three families sold %d of %d", sum, left)
	}
	wantStock(t, s.audit(t, services[0]), 40, 0, 40, 40)
}

// A claim, a filling and the order of a connection that breaks are rolled back: every unit
// is sold or on sale, and none is stranded. The connections break when a buyer has claimed a
// unit and is about to write the order.
func TestBrokenConnectionsStrandNoUnit(t *testing.T) {
	const stocked = 150
	s, services := unitSite(t, 2)
	s.put(t, services[0], stocked)
	var failed, claims atomic.Int64
	s.aside(t, func(aside *site) {
		var one sync.Mutex // one connection serves one kill at a time
		stop := s.beforeOrders(func(*gorm.DB) {
			if claims.Add(1)%20 == 10 {
				one.Lock()
				defer one.Unlock()
				killConnections(t, aside.db)
			}
		})
		defer stop()
		var buyers sync.WaitGroup
		for i := range 100 {
			buyers.Go(func() {
				if _, err := services[i%2].Deduct(t.Context(), s.request("sql_units", "")); err != nil {
					failed.Add(1)
				}
			})
		}
		buyers.Wait()
	})
	if failed.Load() == 0 {
		t.Errorf("no buyer failed in %d claims", claims.Load())
	}
	pool, err := s.db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxIdleConns(0) // the server may not have closed those that it was told to kill
	if w := s.units(t); w.Pooled+w.Remaining+w.Sold != stocked {
		t.Errorf("%+v do not make %d", w, stocked)
	}
	sold := s.units(t).Sold
	if more, _, _ := rush(t, s, stocked, "sql_units", services...); sold+int64(more) != stocked {
		t.Errorf("%d and then %d of %d sold", sold, more, stocked)
	}
}

// A repair in the middle of a rush changes nothing.
func TestRepairsWhileUnitsAreClaimed(t *testing.T) {
	const stocked = 150
	s, services := unitSite(t, 2)
	s.put(t, services[0], stocked)
	done, repaired := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(repaired)
		for {
			if r, err := services[1].Repair(t.Context(), s.sku); err != nil || r.Returned != 0 {
				t.Errorf("a repair returned %d units, %v; want none", r.Returned, err)
			}
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	if sold, _, _ := rush(t, s, stocked+20, "sql_units", services...); sold != stocked {
		t.Errorf("%d sold, want %d", sold, stocked)
	}
	close(done)
	<-repaired
	wantStock(t, s.audit(t, services[0]), stocked, 0, stocked, stocked)
}

// SQLite is refused with a line that says what to use.
func TestUnitsNeedAServer(t *testing.T) {
	s := embeddedSite(t)
	s.keeper = stock.InDatabase
	service := s.instance(t, nil)
	s.put(t, service, 1)
	_, err := service.Deduct(t.Context(), s.request("sql_units", ""))
	if !errors.Is(err, stock.ErrLocation) || !strings.Contains(err.Error(), "SKIP LOCKED; use MySQL or MariaDB") {
		t.Errorf("got %v", err)
	}
}
