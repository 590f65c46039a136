package stock_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/stock"
)

// withPool limits pools to this size.
func withPool(db *gorm.DB, size int64) func(*stock.Config) {
	return func(cfg *stock.Config) {
		cfg.Strategies["sql_units"] = stock.Strategy{Guard: stock.Units(db, size), Keeper: stock.InDatabase}
	}
}

// poolSize is the size of the pools in these tests.
const poolSize = 10

// unitSite returns a site in MySQL or MariaDB, and instances with small pools on it.
func unitSite(t *testing.T, instances int) (*site, []*stock.Service) {
	t.Helper()
	s := newDatabaseSite(t)
	all := make([]*stock.Service, instances)
	for i := range all {
		all[i] = s.instance(t, withPool(s.db, poolSize))
	}
	return s, all
}

// where counts the units of an item in rows of the pool, in the item's row, and in orders.
type where struct{ Pooled, Remaining, Sold int64 }

// units reads these counts for the site's item, in one snapshot.
func (s *site) units(t *testing.T) (w where) {
	t.Helper()
	err := s.db.Raw("SELECT (SELECT COUNT(*) FROM oversell_units WHERE sku = ?) AS pooled, "+
		"(SELECT COALESCE(SUM(quantity), 0) FROM oversell_orders o WHERE o.sku = i.sku AND o.sale_id = "+
		"i.sale_id) AS sold, "+
		"remaining FROM oversell_items i WHERE sku = ?", s.sku, s.sku).Scan(&w).Error
	must(t, err)
	return w
}

// lockUnits locks n units of the item, like a claim that is not committed yet, and returns the
// transaction.
func (s *site) lockUnits(t *testing.T, item stock.Item, n int64) *gorm.DB {
	t.Helper()
	tx := s.db.Begin(&sql.TxOptions{Isolation: sql.LevelReadCommitted})
	t.Cleanup(func() { tx.Rollback() })
	must(t, (stock.Pool{SKU: item.SKU, Generation: s.generation(t)}).Claim(tx, n))
	return tx
}

// generation returns the current generation of the site's item.
func (s *site) generation(t *testing.T) string {
	t.Helper()
	var item stock.Item
	must(t, s.db.Where("sku = ?", s.sku).Take(&item).Error)
	return item.Generation
}

// No buyer waits for a locked unit while other units are free. Only the buyers of the last units
// wait, because the claim that locks these units may be rolled back.
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

// aside calls f with a site on a separate database connection, which is available even if all
// connections of the pool are in use.
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

// While a crowd at several shops empties and fills the pool, every snapshot of the pool, the item's
// row and the orders accounts for all units of the sale. The pool never has more rows than its size
// plus those of claims under way. Each buyer checks this before its order is written.
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

// An order gets all its units or none, even if it wants more than the pool has.
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

// Units of an earlier sale cannot be claimed: a buyer who was at work when the next sale began buys
// in the new sale.
func TestUnitsOfAnEarlierSaleAreGone(t *testing.T) {
	s, services := unitSite(t, 1)
	s.put(t, services[0], 5)
	rush(t, s, 1, "sql_units", services...)
	inside, resume := stopInWork(t, s, "sql_units")
	<-inside
	old := stock.Pool{SKU: s.sku, Generation: s.generation(t)}
	s.put(t, services[0], 8)
	if err := old.Claim(s.db, 1); !errors.Is(err, stock.ErrFew) {
		t.Errorf("a claim in the earlier sale got %v, want %v", err, stock.ErrFew)
	}
	if err := resume(); err != nil {
		t.Errorf("the buyer of the earlier sale got %v", err)
	}
	wantStock(t, s.audit(t, services[0]), 8, 7, 1, 1)
}

// changes returns the operations that end a generation or a sale, by name.
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

// PUT, DELETE and a repair wait for a claim that is under way. Afterwards they find either its order
// or its units, never both.
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
			sold := stock.Order{ID: "claimed-" + s.sku, SKU: s.sku, SaleID: item.SaleID, Quantity: 2,
				Strategy: "sql_units", CreatedAt: time.Now()}
			must(t, claim.Create(&sold).Error)
			must(t, claim.Commit().Error)
			must(t, <-changed)
			switch name {
			case "repair":
				wantStock(t, s.audit(t, services[0]), 9, 6, 3, 2)
			case "put":
				wantStock(t, s.audit(t, services[0]), 9, 9, 0, 0)
			case "delete":
				var rows int64
				s.db.Raw("SELECT (SELECT COUNT(*) FROM oversell_units WHERE sku = ?) + (SELECT COUNT(*) FROM "+
					"oversell_orders WHERE sku = ?)", s.sku, s.sku).Scan(&rows)
				if rows != 0 {
					t.Errorf("%d rows of units and orders are left", rows)
				}
			}
		})
	}
}

// waitForDrain waits until a change is removing the units of the pool, which a claim delays.
func (s *site) waitForDrain(t *testing.T) {
	t.Helper()
	eventually(t, "a change waits for the claim", func() (bool, any) {
		var draining int64
		must(t, s.db.Raw("SELECT COUNT(*) FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND "+
			"info LIKE 'DELETE FROM `oversell_units`%'").Scan(&draining).Error)
		return draining > 0, draining
	})
}

// The pool's units return to the item's row before another family sells, so that strategies that do
// not know the pool find them there.
func TestFamiliesOfOneItemSeeThePoolsUnits(t *testing.T) {
	s, services := unitSite(t, 2)
	s.put(t, services[0], 40)
	left := int64(40)
	for _, strategy := range []string{"sql_units", "sql_conditional", "sql_units", "sql_version", "v8_fenced",
		"sql_units", "sql_for_update", "sql_units"} {
		res, err := services[left%2].Deduct(t.Context(), s.request(strategy, ""))
		if left--; err != nil || res.Left != left {
			t.Errorf("%s: %v with %d left, want %d", strategy, err, res.Left, left)
		}
		if w := s.units(t); strategy != "sql_units" && w.Pooled != 0 {
			t.Errorf("%s began beside %d units in the pool", strategy, w.Pooled)
		}
	}
	wantStock(t, s.audit(t, services[0]), 40, 32, 8, 8)
}
