package stock_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"oversell/internal/stock"
)

// impatient waits for a moment only.
func impatient(cfg *stock.Config) { cfg.Wait = 300 * time.Millisecond }

// pairs are strategies that know nothing of each other.
var pairs = []struct {
	first, second string
	keeper        stock.Keeper
}{
	{"v9_cohort", "v6_watchdog", stock.InRedis},
	{"v6_watchdog", "lua_atomic", stock.InRedis},
	{"v6_watchdog", "watch", stock.InRedis},
	{"v6_watchdog", "none", stock.InRedis},
	{"v9_cohort", "v6_watchdog", stock.InDatabase},
	{"v6_watchdog", "sql_conditional", stock.InDatabase},
}

func TestFamiliesTakeTurns(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, p := range pairs {
			t.Run(p.first+", "+p.second+"/"+string(p.keeper), func(t *testing.T) {
				s.sku, s.keeper = newSKU(), p.keeper
				hasty, patient := s.instance(t, impatient), s.instance(t, nil)
				s.put(t, hasty, 10)
				inside, goOn := stopped(t, s, p.first)
				<-inside
				_, err := hasty.Deduct(t.Context(), s.wish(p.second, ""))
				if !errors.Is(err, stock.ErrOtherStrategy) || !strings.Contains(err.Error(), p.first) {
					t.Errorf("the second got %v, want %v and its name", err, stock.ErrOtherStrategy)
				}
				waiting := order(t.Context(), patient, s.wish(p.second, ""))
				soon()
				if err := goOn(); err != nil {
					t.Errorf("the first got %v", err)
				}
				if o := <-waiting; o.err != nil || o.res.Left != 8 {
					t.Errorf("who waited got %v with %d left, want a unit and 8", o.err, o.res.Left)
				}
				wantStock(t, s.audit(t, hasty), 10, 8, 2, 2)
			})
		}
	})
}

// The lesson: what the turns are for.
func TestMixedStrategiesOversell(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, p := range pairs {
			s.sku, s.keeper = newSKU(), p.keeper
			inside, gate := make(chan struct{}), make(chan struct{})
			slow := s.instance(t, func(cfg *stock.Config) {
				withMixed(cfg)
				withWork(park(inside, gate))(cfg)
			})
			other := s.instance(t, withMixed)
			s.put(t, other, 2)
			late := order(t.Context(), slow, s.wish(p.first, ""))
			<-inside
			rush(t, s, 2, p.second, other)
			close(gate)
			if o := <-late; o.err != nil {
				t.Errorf("%v: %v", p, o.err)
			}
			if a := s.audit(t, other); a.Oversold != 1 {
				t.Errorf("%v: oversold %d, want 1", p, a.Oversold)
			}
		}
	})
}

// Strategies that check and write in one step need no turns.
func TestOneFamilyWorksTogether(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		hasty := s.instance(t, impatient)
		s.put(t, hasty, 10)
		inside, goOn := stopped(t, s, "lua_atomic")
		<-inside
		for _, strategy := range []string{"watch", "lua_batch", "lua_atomic"} {
			if _, err := hasty.Deduct(t.Context(), s.wish(strategy, "")); err != nil {
				t.Errorf("%s beside lua_atomic: %v", strategy, err)
			}
		}
		if err := goOn(); err != nil {
			t.Error(err)
		}
		wantStock(t, s.audit(t, hasty), 10, 6, 4, 4)
	})
}

// A process that cannot say any more that it is at work, because it stands still or
// is cut off, loses its turn. What it writes after that is refused.
func TestLateFamilyIsRefused(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, p := range pairs {
			s.sku, s.keeper = newSKU(), p.keeper
			other := s.instance(t, nil)
			s.put(t, other, 2)
			inside, goOn := stopped(t, s, p.first)
			<-inside
			silence := time.NewTicker(5 * time.Millisecond)
			done := make(chan struct{})
			go func() { // for as long as the others need
				defer close(done)
				for range 400 {
					<-silence.C
					_ = s.db.Exec("DELETE FROM oversell_presences WHERE sku = ? AND family = ?", s.sku, p.first).Error
					if a, err := other.Audit(t.Context(), s.sku); err == nil && a.Sold == 2 {
						return
					}
				}
			}()
			if sold, _, _ := rush(t, s, 2, p.second, other); sold != 2 {
				t.Errorf("%v: %d sold, want 2", p, sold)
			}
			<-done
			silence.Stop()
			if err := goOn(); !errors.Is(err, stock.ErrSoldOut) {
				t.Errorf("%v: the late one got %v, want %v", p, err, stock.ErrSoldOut)
			}
			wantStock(t, s.audit(t, other), 2, 0, 2, 2)
		}
	})
}

// Buyers of a process that died keep nobody out for long.
func TestDeadFamilyIsNotWaitedForForEver(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 10)
		rush(t, s, 1, "v6_watchdog", service)
		dies := time.Now().Add(200 * time.Millisecond).UTC()
		err := s.db.Exec("INSERT INTO oversell_presences (sku, family, instance, ends_at) VALUES (?, 'v6_watchdog', 'dead', ?)", s.sku, dies).Error
		if err != nil {
			t.Fatal(err)
		}
		if _, err := service.Deduct(t.Context(), s.wish("lua_atomic", "")); err != nil {
			t.Error(err)
		}
		if time.Now().Before(dies) {
			t.Error("buyers who may still be at work were not waited for")
		}
	})
}

// Who waits for the turn of another family is told as soon as that has sold all.
func TestSoldOutIsToldToThoseWhoWaitForATurn(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 1)
		inside, goOn := stopped(t, s, "v6_watchdog")
		<-inside
		waiting := order(t.Context(), service, s.wish("v9_cohort", ""))
		soon()
		if err := goOn(); err != nil {
			t.Fatal(err)
		}
		if o := <-waiting; !errors.Is(o.err, stock.ErrSoldOut) {
			t.Errorf("the waiter got %v, want %v", o.err, stock.ErrSoldOut)
		}
	})
}
