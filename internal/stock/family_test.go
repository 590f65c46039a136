package stock_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/guard"
	"oversell/internal/stock"
)

// pairs lists pairs of strategies of different families.
var pairs = []struct {
	first, second string
	keeper        stock.Backend
}{
	{"v9_cohort", "v6_watchdog", stock.InRedis},
	{"v6_watchdog", "lua_atomic", stock.InRedis},
	{"v6_watchdog", "watch", stock.InRedis},
	{"v6_watchdog", "none", stock.InRedis},
	{"v9_cohort", "v6_watchdog", stock.InDatabase},
	{"v6_watchdog", "sql_conditional", stock.InDatabase},
}

// withTurn sets how long a family that sells nothing keeps other families out.
func withTurn(d time.Duration) func(*stock.Config) {
	return func(cfg *stock.Config) { cfg.Turn = d }
}

// During its turn, a family keeps other families out even if it has not sold anything yet.
func TestFamiliesTakeTurns(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, p := range pairs {
			t.Run(p.first+", "+p.second+"/"+string(p.keeper), func(t *testing.T) {
				s.sku, s.keeper = newSKU(), p.keeper
				other := s.instance(t, withTurn(time.Hour))
				s.put(t, other, 11)
				rush(t, s, 1, p.second, other)
				inside, resume := stopInWork(t, s, p.first)
				<-inside
				err := givesUp(t, s, p.second)
				if !errors.Is(err, stock.ErrOtherStrategy) || !strings.Contains(err.Error(), p.first) {
					t.Errorf("the second got %v, want %v and its name", err, stock.ErrOtherStrategy)
				}
				waiting := order(t.Context(), other, s.request(p.second, ""))
				pause()
				if err := resume(); err != nil {
					t.Errorf("the first got %v", err)
				}
				if o := <-waiting; o.err != nil || o.res.Left != 8 { // of 11 units, 3 are sold
					t.Errorf("the waiter got %v with %d left, want a unit and 8", o.err, o.res.Left)
				}
				wantStock(t, s.audit(t, other), 11, 8, 3, 3)
			})
		}
	})
}

// A family that has sold something keeps its turn for at least 0.1 s.
func TestTurnsAreNotTooShort(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 10)
		rush(t, s, 1, "v6_watchdog", service)
		first := s.turnBegan(t)
		rush(t, s, 1, "v9_cohort", service)
		if lasted := s.turnBegan(t) - first; lasted < 100 {
			t.Errorf("the first turn lasted %d ms", lasted)
		}
	})
}

// turnBegan returns when the current turn of the site's item began, in Unix milliseconds.
func (s *site) turnBegan(t *testing.T) (ms int64) {
	t.Helper()
	must(t, s.db.Raw("SELECT turn_began FROM oversell_items WHERE sku = ?", s.sku).Scan(&ms).Error)
	return ms
}

// lockRow keeps the row of the site's item locked until the test ends.
func (s *site) lockRow(t *testing.T) {
	t.Helper()
	tx := s.db.Begin()
	t.Cleanup(func() { tx.Rollback() })
	must(t, tx.Exec("UPDATE oversell_items SET name = 'locked' WHERE sku = ?", s.sku).Error)
}

// The wait for a turn ends in time even if somebody keeps the item's row locked.
func TestWaitForATurnIsBounded(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, func(cfg *stock.Config) { cfg.Wait = 100 * time.Millisecond })
		s.put(t, service, 1)
		s.lockRow(t)
		buyer := order(t.Context(), service, s.request("none", ""))
		select {
		case o := <-buyer:
			if !errors.Is(o.err, stock.ErrBusy) {
				t.Errorf("the buyer got %v, want %v", o.err, stock.ErrBusy)
			}
		case <-time.After(backendtest.Slack):
			t.Error("the buyer still waits for the row")
		}
	})
}

// broken is a guard that always fails.
type broken struct{}

var errNoLock = errors.New("its server is away")

func (broken) Do(context.Context, stock.Location, guard.Entry, stock.Section) (guard.Stats, error) {
	return guard.Stats{}, errNoLock
}

// A family that cannot sell because its lock fails does not keep other families out.
func TestFailingFamilyGivesUpItsTurn(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, func(cfg *stock.Config) {
			cfg.Turn = time.Hour
			cfg.Strategies["broken"] = stock.Strategy{Guard: broken{}}
		})
		s.put(t, service, 10)
		for range 3 {
			rush(t, s, 1, "v6_watchdog", service)
			wantRefused(t, service, s.request("broken", ""), errNoLock)
		}
		rush(t, s, 1, "v6_watchdog", service)
		wantStock(t, s.audit(t, service), 10, 6, 4, 4)
	})
}

// A buyer whose turn is over, and who then leaves, does not end the turn of the next family.
func TestBuyerGivesUpOnlyTheTurnOfItsFamily(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		inside, gate, waits := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var late atomic.Bool
		asked := sync.OnceFunc(func() { close(waits) })
		service := s.instance(t, func(cfg *stock.Config) {
			cfg.Work, cfg.Turn = park(inside, gate), time.Hour
			cfg.Now = func() time.Time {
				if late.Load() {
					asked()
				}
				return time.Now()
			}
		})
		s.put(t, service, 3)
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		buyer := order(ctx, service, s.request("lua_atomic", ""))
		<-inside
		rush(t, s, 1, "lua_atomic", s.instance(t, nil))
		working, resume := stopInWork(t, s, "v6_watchdog")
		<-working
		began := s.turnBegan(t)
		late.Store(true)
		close(gate)
		<-waits
		leave()
		if o := <-buyer; !errors.Is(o.err, context.Canceled) {
			t.Errorf("the buyer who left got %v, want %v", o.err, context.Canceled)
		}
		if now := s.turnBegan(t); now != began {
			t.Errorf("the turn of the next family began at %d, and now at %d", began, now)
		}
		must(t, resume())
	})
}

// Families whose buyers come at the same time take turns, each ending the other's generation, until
// all buyers are served.
func TestFamiliesThatAlternateAllSell(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		for _, p := range pairs {
			s.sku, s.keeper = newSKU(), p.keeper
			s.put(t, a, 40)
			var all sync.WaitGroup
			for _, strategy := range []string{p.first, p.second} {
				all.Go(func() {
					if sold, _, _ := rush(t, s, 20, strategy, a, b); sold != 20 {
						t.Errorf("%v: %s sold %d of 20", p, strategy, sold)
					}
				})
			}
			all.Wait()
			if p.second != "none" { // none loses updates
				wantStock(t, s.audit(t, b), 40, 0, 40, 40)
			}
		}
	})
}

// givesUp returns the error of a buyer that gives up. If the error is ErrBusy, the buyer did not wait
// long enough to learn the reason, and givesUp tries again with a longer wait.
func givesUp(t *testing.T, s *site, strategy string) error {
	t.Helper()
	for wait := 300 * time.Millisecond; ; wait *= 2 {
		impatient := s.instance(t, func(cfg *stock.Config) { cfg.Wait, cfg.Turn = wait, time.Hour })
		_, err := impatient.Deduct(t.Context(), s.request(strategy, ""))
		if !errors.Is(err, stock.ErrBusy) {
			return err
		}
	}
}

// A family that sells nothing because its process was killed or is paused loses its turn. Its later
// writes are refused.
func TestLateFamilyIsRefused(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, p := range pairs {
			s.sku, s.keeper = newSKU(), p.keeper
			other := s.instance(t, withTurn(time.Nanosecond))
			s.put(t, other, 2)
			inside, resume := stopInWork(t, s, p.first)
			<-inside
			if sold, _, _ := rush(t, s, 2, p.second, other); sold != 2 {
				t.Errorf("%v: %d sold, want 2", p, sold)
			}
			if err := resume(); !errors.Is(err, stock.ErrSoldOut) {
				t.Errorf("%v: the late buyer got %v, want %v", p, err, stock.ErrSoldOut)
			}
			wantStock(t, s.audit(t, other), 2, 0, 2, 2)
		}
	})
}

// A generation of the lua_stream family may end before it is published in Redis. The previous
// generation, which is still in Redis, is removed nevertheless.
func TestNoGenerationStaysInRedis(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 10)
		rush(t, s, 1, "v8_fenced", service)
		claimed := s.db.Exec("UPDATE oversell_items SET family = ?, generation = 'claimed', unpublished = ?, "+
			"remaining = 9 "+
			"WHERE sku = ?", streamed, true, s.sku)
		if claimed.Error != nil {
			t.Fatal(claimed.Error)
		}
		rush(t, s, 1, "v7_queue", service)
		current := s.stockKey(t)
		for _, key := range s.keysLeft(t) {
			if strings.Contains(key, ":stock:") && key != current {
				t.Errorf("%s is left of an earlier generation; the current one is %s", key, current)
			}
		}
		must(t, service.Delete(t.Context(), s.sku))
		for _, key := range s.keysLeft(t) {
			if ttl, err := s.rdb.PTTL(t.Context(), key).Result(); err != nil || ttl == -1 {
				t.Errorf("%s stays forever: %v, %v", key, ttl, err)
			}
		}
	})
}
