package stock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

// soon sets a short grace time. Correctness does not depend on it.
func soon(cfg *stock.Config) { cfg.Grace = 100 * time.Millisecond }

// strand takes units from the stock, like a process that is killed before it writes the order.
func (s *site) strand(t *testing.T, units int64) {
	t.Helper()
	must(t, s.rdb.DecrBy(t.Context(), s.stockKey(t), units).Err())
}

// repair repairs the site's item.
func (s *site) repair(t *testing.T, service *stock.Service) stock.Repair {
	t.Helper()
	done, err := service.Repair(t.Context(), s.sku)
	must(t, err)
	return done
}

// overwrite is the naive repair: it counts the orders and writes the stock while the sale goes on.
// Because units in flight are not in an order yet, it puts them on sale a second time.
func (s *site) overwrite(t *testing.T, initial int64) {
	t.Helper()
	var sold int64
	must(t, s.db.Model(&stock.Order{}).Where("sku = ?", s.sku).Select("COALESCE(SUM(quantity), 0)").
		Scan(&sold).Error)
	must(t, s.rdb.Set(t.Context(), s.stockKey(t), initial-sold, 0).Err())
}

func TestRepairPutsStrandedUnitsBackOnSale(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service, other := s.instance(t, soon), s.instance(t, soon)
		for _, strategy := range []string{"lua_batch", "watch", "v9_cohort"} {
			t.Run(strategy, func(t *testing.T) {
				s.sku = newSKU()
				s.put(t, service, 20)
				rush(t, s, 5, strategy, service, other)
				s.strand(t, 3)
				s.until(t, other, "three units are stranded", func(a stock.Audit) bool {
					return a.Stranded == 3 && a.InFlight == 0 // when no process reports units in flight any more
				})
				if done := s.repair(t, other); done.Returned != 3 {
					t.Errorf("%d units are back on sale, want 3", done.Returned)
				}
				if done := s.repair(t, service); done.Returned != 0 {
					t.Errorf("a second repair returned %d units, want 0", done.Returned)
				}
				wantStock(t, s.audit(t, service), 20, 15, 5, 5)
				if sold, _, _ := rush(t, s, 20, strategy, service, other); sold != 15 {
					t.Errorf("%d sold after the repair, want 15", sold)
				}
			})
		}
	})
}

// A buyer has taken ten units, and its order is about to be written, when the stock is repaired
// because of another, stranded unit. The naive overwrite puts the ten units on sale again, and they
// are sold twice. Repair also puts them on sale again, but in a new generation: the buyer's order
// belongs to the previous generation, and is refused.
func TestRepairDuringASaleOversellsOnlyIfItOverwrites(t *testing.T) {
	const units, flying = 11, 10
	repairs := []struct {
		name     string
		repair   func(t *testing.T, s *site, service *stock.Service)
		oversold int64
	}{
		{"overwrite", func(t *testing.T, s *site, _ *stock.Service) { s.overwrite(t, units) }, flying},
		{"new generation", func(t *testing.T, s *site, service *stock.Service) {
			if done := s.repair(t, service); done.Returned != units {
				t.Errorf("%d units are back on sale, want %d", done.Returned, units)
			}
		}, 0},
	}
	eachSite(t, func(t *testing.T, s *site) {
		for _, tt := range repairs {
			for _, strategy := range []string{"lua_atomic", "lua_batch"} {
				t.Run(tt.name+"/"+strategy, func(t *testing.T) {
					s.sku = newSKU()
					slow, other := s.instance(t, soon), s.instance(t, soon)
					s.put(t, slow, units)
					inFlight, goOn := s.parkFirstOrder(t)
					req := s.request(strategy, "")
					req.Quantity = flying
					late := order(t.Context(), slow, req)
					<-inFlight
					s.strand(t, 1)
					tt.repair(t, s, other)
					sold, _, _ := rush(t, s, units+5, strategy, other)
					goOn()
					told := (<-late).err
					a := s.audit(t, other)
					if sold != units || a.Oversold != tt.oversold || a.Sold != units+tt.oversold {
						t.Errorf("%d sold to the others, %d in all, %d oversold; want %d, %d, %d",
							sold, a.Sold, a.Oversold, units, units+tt.oversold, tt.oversold)
					}
					if refused := errors.Is(told, stock.ErrSoldOut); refused != (tt.oversold == 0) {
						t.Errorf("the buyer in flight was told: %v", told)
					}
				})
			}
		}
	})
}

// While an order is being written, the audits of all instances count its unit as in flight, and not
// as stranded.
func TestAuditTellsUnitsInFlightFromStrandedOnes(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		buying, watching := s.instance(t, soon), s.instance(t, soon)
		for _, strategy := range []string{"lua_atomic", "v4_lua"} {
			t.Run(strategy, func(t *testing.T) {
				s.sku = newSKU()
				s.put(t, buying, 10)
				inFlight, goOn := s.parkFirstOrder(t)
				bought := order(t.Context(), buying, s.request(strategy, ""))
				<-inFlight
				s.strand(t, 2)
				want := func(service *stock.Service, inFlight, stranded int64) {
					t.Helper()
					a := s.until(t, service, "the other process has published its units", func(a stock.Audit) bool {
						return a.InFlight == inFlight
					})
					if a.Stranded != stranded || a.LostUpdates != -inFlight-stranded {
						t.Errorf("%d in flight, %d stranded, %d lost; want %d, %d",
							a.InFlight, a.Stranded, a.LostUpdates, inFlight, stranded)
					}
				}
				want(buying, 1, 2)
				want(watching, 1, 2)
				goOn()
				if o := <-bought; o.err != nil {
					t.Error(o.err)
				}
				want(buying, 0, 2)
				want(watching, 0, 2)
			})
		}
	})
}

// Orders that are written after a repair has read the stock, and before it counts the orders, hide
// missing units. A repair during a rush must not conclude that stock and orders agree.
func TestRepairIsNotDeceivedByARush(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service, other := s.instance(t, soon), s.instance(t, soon)
		s.put(t, service, 20)
		rush(t, s, 1, "lua_atomic", other)
		s.strand(t, 1)
		var n atomic.Int64
		remove := s.onReads(func(tx *gorm.DB) {
			if counts(tx) && n.Add(1) <= 2 {
				rush(t, s, 1, "lua_atomic", other)
			}
		})
		defer remove()
		if done := s.repair(t, service); done.Returned != 1 {
			t.Errorf("%d units are back on sale, want 1", done.Returned)
		}
		wantStock(t, s.audit(t, service), 20, 17, 3, 3)
	})
}

// A repair does not treat the units of orders in the stream as missing. It puts the units of dead
// letters back on sale.
func TestRepairOfAStream(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, soon)
		s.put(t, service, 20)
		ids := accept(t, s, service, 2)
		before := s.stockKey(t)
		if done := s.repair(t, service); done.Returned != 0 {
			t.Errorf("a repair of a healthy stream returned %d units", done.Returned)
		}
		s.wantState(t, service, stock.StateAccepted, ids...)
		if after := s.stockKey(t); after != before {
			t.Errorf("a repair of a healthy stream began the generation of %s", after)
		}
		s.strand(t, 4)
		for _, want := range []int64{4, 0} {
			if done := s.repair(t, service); done.Returned != want {
				t.Errorf("%d units are back on sale, want %d", done.Returned, want)
			}
		}
		s.strand(t, -5)
		if done := s.repair(t, service); done.Returned != -5 {
			t.Errorf("%d units are back on sale, want -5", done.Returned)
		}
		_, order, _ := s.buyPoison(t, service, "")
		consume(t, service, stream.Consumer{Tries: 1})
		s.deadLetters(t, service, 1)
		for _, want := range []int64{3, 0} {
			if n, err := service.Unwritten(t.Context()); err != nil || int64(n) != want/3 {
				t.Errorf("%d orders may still be written, %v; want %d", n, err, want/3)
			}
			if done := s.repair(t, service); done.Returned != want {
				t.Errorf("%d units of a dead letter are back on sale, want %d", done.Returned, want)
			}
		}
		s.wantState(t, service, stock.StateNotAccepted, order.ID)
		if l := s.deadLetters(t, service, 1)[0]; l.Kind != "failed" || l.HasUnits {
			t.Errorf("after the repair the dead letter is %+v", l)
		}
		wantStock(t, s.settled(t, service), 20, 18, 2, 2)
	})
}

// A repair on request immediately corrects a stock that has units that are already sold. A stock in
// the database is written together with the order, so it can be too high or too low only if somebody
// has changed its row by hand.
func TestRepairOfAWrongStock(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, soon)
		for _, c := range []struct {
			strategy string
			keeper   stock.Backend
			wrong    int64 // how far the stock is too high
		}{{"lua_atomic", stock.InRedis, 3}, {"sql_conditional", stock.InDatabase, 2},
			{"sql_conditional", stock.InDatabase, -2}} {
			s.sku, s.keeper = newSKU(), c.keeper
			s.put(t, service, 10)
			rush(t, s, 4, c.strategy, service)
			if c.keeper == stock.InRedis {
				s.strand(t, -c.wrong)
			} else {
				must(t, s.db.Model(&stock.Item{}).Where("sku = ?", s.sku).UpdateColumn("remaining", 6+c.wrong).Error)
			}
			if a := s.audit(t, service); a.LostUpdates != c.wrong {
				t.Errorf("%+v: %d updates are lost", c, a.LostUpdates)
			}
			if done := s.repair(t, service); done.Returned != -c.wrong {
				t.Errorf("%+v: returned %d", c, done.Returned)
			}
			wantStock(t, s.audit(t, service), 10, 6, 4, 4)
			if sold, _, _ := rush(t, s, 12, c.strategy, service); sold != 6 {
				t.Errorf("%+v: %d sold after the repair, want 6", c, sold)
			}
		}
	})
}

// If a Redis command fails in the middle of a repair, the stock is unchanged or is counted again. In
// no case are there too many units on sale.
func TestRepairThatFailsHalfwayIsHarmless(t *testing.T) {
	faults := map[string]locktest.Action{
		"before Redis has changed": locktest.Fail(locktest.ErrCut),
		"after Redis has changed":  locktest.LoseReply(locktest.ErrCut),
	}
	eachSite(t, func(t *testing.T, s *site) {
		for name, fault := range faults {
			t.Run(name, func(t *testing.T) {
				s.sku = newSKU()
				repairing, other := s.instance(t, soon), s.instance(t, soon)
				s.put(t, repairing, 20)
				rush(t, s, 5, "lua_atomic", repairing, other)
				s.strand(t, 6)
				hook := new(locktest.Hook)
				s.rdb.AddHook(hook)
				cut := hook.On(locktest.All(locktest.Command("set"),
					locktest.Mentioning("oversell:{"+s.sku+"}:sale")), 1, fault)
				_, err := repairing.Repair(t.Context(), s.sku)
				if !errors.Is(err, locktest.ErrCut) || cut.Hits() != 1 {
					t.Fatalf("got %v after %d faults, want %v", err, cut.Hits(), locktest.ErrCut)
				}
				sold, _, _ := rush(t, s, 30, "lua_atomic", other)
				s.repair(t, other)
				again, _, _ := rush(t, s, 30, "lua_atomic", other, repairing)
				if sold+again != 15 {
					t.Errorf("%d and %d sold, want 15 together", sold, again)
				}
				wantStock(t, s.audit(t, other), 20, 0, 20, 20)
			})
		}
	})
}

// Units that have been missing for the grace time go back on sale automatically, and only once,
// although several shops look for them. A unit that is both in the stock and sold, or that is in
// flight, does not cause a new generation. Items that cannot be read do not block the others.
func TestStrandedUnitsGoBackOnSaleByThemselves(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		services := []*stock.Service{s.instance(t, soon), s.instance(t, soon)}
		put := func(missing int64) string {
			s.sku = newSKU()
			s.put(t, services[0], 10)
			s.strand(t, missing)
			return s.stockKey(t)
		}
		hook := new(locktest.Hook)
		s.rdb.AddHook(hook)
		for range 5 {
			defer hook.On(locktest.Mentioning(put(0)), -1, locktest.Fail(locktest.ErrCut)).Off()
		}
		stranded, sound, more := put(4), put(0), put(-4)
		var all sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		for _, service := range services {
			all.Go(func() { service.ReturnStranded(ctx, time.Millisecond) })
		}
		s.sku = strings.Split(strings.Split(stranded, "{")[1], "}")[0]
		s.until(t, services[0], "the units are back", func(a stock.Audit) bool { return a.Remaining == 10 })
		if s.stockKey(t) == stranded {
			t.Error("the stock was overwritten: it has no new generation")
		}
		stop()
		all.Wait()
		for _, key := range []string{sound, more} {
			if n, err := s.rdb.Exists(t.Context(), key).Result(); err != nil || n != 1 {
				t.Errorf("%s has ended without need, %v", key, err)
			}
		}
	})
}
