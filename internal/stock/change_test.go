package stock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
)

// saleInRedis returns the id of the current sale according to Redis.
func (s *site) saleInRedis(t *testing.T) string {
	t.Helper()
	id, _, _ := strings.Cut(s.rdb.Get(t.Context(), "oversell:{"+s.sku+"}:sale").Val(), ":")
	return id
}

// wantOneSale sends as many buyers as units says, and checks that Redis and the database have the same
// sale, and that all units sold belong to it.
func (s *site) wantOneSale(t *testing.T, service *stock.Service, units int) {
	t.Helper()
	sold, _, _ := rush(t, s, units, "v6_watchdog", service)
	item, err := service.Item(t.Context(), s.sku)
	must(t, err)
	if got := s.saleInRedis(t); got != item.SaleID {
		t.Errorf("Redis is in sale %s, the database in %s", got, item.SaleID)
	}
	a := s.audit(t, service)
	if a.Sold != int64(sold) || a.LostUpdates != 0 || a.Foreign != 0 || a.Oversold != 0 {
		t.Errorf("%d buyers got a unit, and the audit finds %+v", sold, a)
	}
}

// A change runs to its end even if its client goes away in the middle.
func TestChangeWhoseClientGoesAwayIsWhole(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 5)
		for i := range 100 {
			ctx, goAway := context.WithCancel(t.Context())
			time.AfterFunc(rand.N(4*time.Millisecond), goAway)
			if i%4 == 3 {
				must(t, service.Delete(ctx, s.sku))
				if _, err := service.Item(t.Context(), s.sku); !errors.Is(err, stock.ErrUnknownItem) {
					t.Errorf("the item was deleted, and is read with %v", err)
				}
			} else {
				put, err := service.Put(ctx, stock.Item{SKU: s.sku, Initial: 5})
				must(t, err)
				if got := s.saleInRedis(t); got != put.SaleID {
					t.Errorf("Redis is in sale %s, want %s", got, put.SaleID)
				}
				s.wantOneSale(t, service, 3)
			}
			goAway()
		}
	})
}

func TestPutsAtOnceHaveOneOrder(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		for range 5 {
			var all sync.WaitGroup
			for _, service := range []*stock.Service{a, b, a, b} {
				all.Go(func() { s.put(t, service, 5) })
			}
			all.Wait()
			s.wantOneSale(t, a, 3)
		}
	})
}

// If the Redis command of a change fails, or its reply is lost, the change is rolled back in the
// database. The next reader repairs Redis.
func TestChangeThatRedisFailsIsUndone(t *testing.T) {
	for name, action := range map[string]locktest.Action{
		"nothing was done":   locktest.Fail(locktest.ErrCut),
		"the reply was lost": locktest.LoseReply(locktest.ErrCut),
	} {
		for what, change := range map[string]func(ctx context.Context, service *stock.Service, sku string) error{
			"put": func(ctx context.Context, service *stock.Service, sku string) error {
				return second(service.Put(ctx, stock.Item{SKU: sku, Initial: 99}))
			},
			"delete": func(ctx context.Context, service *stock.Service,
				sku string) error {
				return service.Delete(ctx, sku)
			},
			"restock": func(ctx context.Context, service *stock.Service, sku string) error {
				return second(service.Restock(ctx, sku, "", 99))
			},
		} {
			t.Run(what+", "+name, func(t *testing.T) {
				eachSite(t, func(t *testing.T, s *site) {
					service := s.sale(t, 5)
					rush(t, s, 2, "v6_watchdog", service)
					s.failOnce(action, "del")
					if err := change(t.Context(), service, s.sku); !errors.Is(err, locktest.ErrCut) {
						t.Fatalf("got %v, want %v", err, locktest.ErrCut)
					}
					if sold, soldOut, _ := rush(t, s, 5, "v6_watchdog", service); sold != 3 || soldOut != 2 {
						t.Errorf("%d sold and %d refused, want the last 3 and 2", sold, soldOut)
					}
					wantStock(t, s.audit(t, service), 5, 0, 5, 5)
				})
			})
		}
	}
}

// If Redis was used with another database before, the current database decides which sale is on.
func TestFreshDatabaseDecidesWhichSaleIsOn(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		old := s.sale(t, 1000)
		rush(t, s, 3, "v6_watchdog", old)
		other := *s
		other.sku = newSKU()
		other.put(t, old, 1000)

		fresh := newSite(t, s.rdb, backendtest.DialDatabase(t, backendtest.Database(t, "embedded")))
		fresh.sku = s.sku
		service := fresh.instance(t, nil)
		must(t, service.Offer(t.Context(), stock.Item{SKU: s.sku, Initial: 5}))
		if sold, soldOut, _ := rush(t, fresh, 8, "v6_watchdog", service); sold != 5 || soldOut != 3 {
			t.Errorf("%d sold and %d refused, want 5 and 3", sold, soldOut)
		}
		wantStock(t, fresh.audit(t, service), 5, 0, 5, 5)

		fresh.sku = other.sku
		for _, strategy := range []string{"v6_watchdog", "lua_batch", "watch"} {
			wantRefused(t, service, fresh.request(strategy, ""), stock.ErrUnknownItem)
		}
		if keys := s.rdb.Keys(t.Context(), "oversell:{"+other.sku+"}:stock*").Val(); len(keys) > 0 {
			t.Errorf("Redis keeps %v of an item that does not exist", keys)
		}
	})
}

// The audit counts orders of unknown sales as foreign, but not those of earlier sales.
func TestAuditCountsForeignOrders(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 5)
		rush(t, s, 2, "v4_lua", service)
		s.put(t, service, 5) // orders of an earlier sale are not foreign
		foreign := stock.Order{ID: "foreign", SKU: s.sku, SaleID: "of another database", Quantity: 7,
			Strategy: "v4_lua", CreatedAt: time.Now()}
		must(t, s.db.Create(&foreign).Error)
		if a := s.audit(t, service); a.Foreign != 7 || a.Sold != 0 {
			t.Errorf("the audit finds %d foreign units and %d sold, want 7 and 0", a.Foreign, a.Sold)
		}
	})
}

// losses has functions that make Redis lose an item's data, each in another way.
var losses = map[string]func(t *testing.T, s *site) error{
	"everything": func(t *testing.T, s *site) error { return s.rdb.FlushDB(t.Context()).Err() },
	"the stock":  func(t *testing.T, s *site) error { return s.rdb.Del(t.Context(), s.stockKey(t)).Err() },
	"the sale": func(t *testing.T, s *site) error {
		return s.rdb.Del(t.Context(), "oversell:{"+s.sku+"}:sale").Err()
	},
}

// Redis loses the stock while an order waits to be written. The recount of the stock does not include
// the order, so it must not be written afterwards.
func TestRestoreRefusesOrdersInFlight(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			eachSite(t, func(t *testing.T, s *site) {
				for _, strategy := range []string{"v4_lua", "v6_watchdog", "watch", "lua_atomic", "lua_batch"} {
					s.sku = newSKU()
					slow, other := s.instance(t, nil), s.instance(t, nil)
					s.put(t, other, 10)
					parked, resume := s.parkFirstOrder(t)
					late := order(t.Context(), slow, s.request(strategy, ""))
					<-parked
					must(t, lose(t, s))
					if name != "everything" && strategy[0] == 'v' { // the late buyer still holds the lock
						resume()
					}
					sold, soldOut, _ := rush(t, s, 12, strategy, other)
					resume()
					o := <-late
					if o.err == nil {
						sold++
					} else if errors.Is(o.err, stock.ErrSoldOut) {
						soldOut++
					}
					if sold != 10 || soldOut != 3 {
						t.Errorf("%s: %d sold and %d refused, want 10 and 3; the late buyer got %v",
							strategy, sold, soldOut, o.err)
					}
					wantStock(t, s.audit(t, other), 10, 0, 10, 10)
				}
			})
		})
	}
}

// The units of a failed order return only to the stock from which they were taken.
func TestUnitsGoBackOnlyWhereTheyWereTaken(t *testing.T) {
	eachCase(t, map[string]func(t *testing.T, s *site, service *stock.Service){
		"before the stock is restored": func(t *testing.T, s *site,
			_ *stock.Service) {
			_ = s.rdb.FlushDB(t.Context())
		},
		"after the stock was restored": func(t *testing.T, s *site, service *stock.Service) {
			_ = s.rdb.FlushDB(t.Context())
			s.audit(t, service)
		},
		"in the next sale": func(t *testing.T, s *site, service *stock.Service) { s.put(t, service, 10) },
	}, func(t *testing.T, s *site, meanwhile func(*testing.T, *site, *stock.Service)) {
		for _, strategy := range []string{"v6_watchdog", "watch", "lua_atomic", "lua_batch"} {
			s.sku = newSKU()
			service, other := s.instance(t, nil), s.instance(t, nil)
			s.put(t, other, 10)
			parked, resume := s.parkFirstOrder(t)
			remove := s.beforeOrders(func(tx *gorm.DB) { _ = tx.AddError(errBroken) })
			late := order(t.Context(), service, s.request(strategy, ""))
			<-parked
			meanwhile(t, s, other)
			resume()
			if o := <-late; !errors.Is(o.err, errBroken) {
				t.Errorf("%s: got %v, want %v", strategy, o.err, errBroken)
			}
			remove()
			if sold, soldOut, _ := rush(t, s, 20, strategy, other); sold != 10 || soldOut != 10 {
				t.Errorf("%s: %d sold and %d refused, want 10 and 10", strategy, sold, soldOut)
			}
			wantStock(t, s.audit(t, other), 10, 0, 10, 10)
		}
	})
}

// A lock holder whose item is deleted sells nothing, and creates no key in Redis.
func TestDeleteDuringASaleLeavesNothing(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, strategy := range []string{"v6_watchdog", "v9_cohort", "watch", "lua_atomic", "lua_batch"} {
			s.sku = newSKU()
			other := s.sale(t, 10)
			inside, resume := stopInWork(t, s, strategy)
			<-inside
			must(t, other.Delete(t.Context(), s.sku))
			if err := resume(); !errors.Is(err, stock.ErrUnknownItem) {
				t.Errorf("%s: the holder got %v, want %v", strategy, err, stock.ErrUnknownItem)
			}
			var orders int64
			if err := s.db.Model(&stock.Order{}).Where("sku = ?", s.sku).Count(&orders).Error; err != nil ||
				orders != 0 {
				t.Errorf("%s: %d orders of an item that is gone, %v", strategy, orders, err)
			}
			for _, key := range s.rdb.Keys(t.Context(), "oversell:{"+s.sku+"}:*").Val() {
				if s.rdb.PTTL(t.Context(), key).Val() < 0 {
					t.Errorf("%s: %s never expires", strategy, key)
				}
			}
		}
	})
}
