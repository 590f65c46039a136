package stock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"oversell/internal/backend/backendtest"
	"oversell/internal/locks/locktest"
	"oversell/internal/stock"
)

// counts reports whether a statement adds up the orders of a sale.
func counts(tx *gorm.DB) bool {
	return tx.Statement.Table == "oversell_orders" && strings.Contains(strings.Join(tx.Statement.Selects, ","), "SUM(quantity)")
}

// wantLeft waits until Redis has so many units, without a look by the shop.
func (s *site) wantLeft(t *testing.T, want string) {
	t.Helper()
	deadline, cancel := context.WithTimeout(t.Context(), backendtest.Slack)
	defer cancel()
	for {
		got := s.rdb.Get(t.Context(), s.stockKey(t)).Val()
		if got == want {
			return
		}
		pause()
		if deadline.Err() != nil {
			t.Fatalf("Redis has %q units, want %q", got, want)
		}
	}
}

// The settler tries again when the count failed, and ends with the service.
func TestSettlerTriesAgainUntilClose(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.put(t, service, 10)
		rush(t, s, 1, "lua_atomic", service)
		var tried atomic.Int64
		var broken atomic.Bool
		defer s.onReads(func(tx *gorm.DB) {
			if counts(tx) && broken.Load() {
				tried.Add(1)
				_ = tx.AddError(errBroken)
			}
		})()
		hook := new(locktest.Hook)
		s.rdb.AddHook(hook)
		loseOne := func() {
			hook.On(locktest.Command("evalsha", "eval"), 1, locktest.LoseReply(locktest.ErrCut))
			_, _ = service.Deduct(t.Context(), s.request("lua_atomic", ""))
		}
		broken.Store(true)
		loseOne()
		for deadline := time.Now().Add(backendtest.Slack); tried.Load() < 2 && time.Now().Before(deadline); {
			pause()
		}
		broken.Store(false)
		s.wantLeft(t, "9")
		broken.Store(true)
		loseOne()
		service.Close() // that no goroutine is left is checked after all tests
	})
}

// A stock in the database is right whatever happens to Redis: a doubt about it ends with
// the next comparison, instead of making every buyer compare.
func TestStockInTheDatabaseStaysInNoDoubt(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		s.keeper = stock.InDatabase
		service := s.instance(t, nil)
		s.put(t, service, 10)
		rush(t, s, 1, "v4_lua", service)
		hook := new(locktest.Hook)
		s.rdb.AddHook(hook)
		look := hook.On(locktest.Command("mget"), 1, locktest.Fail(locktest.ErrCut))
		for look.Hits() == 0 {
			_, _, _ = service.Left(t.Context(), s.sku)
		}
		if _, _, err := service.Left(t.Context(), s.sku); err != nil {
			t.Fatal(err)
		}
		const looks = 50
		var reads atomic.Int64
		remove := s.onReads(func(tx *gorm.DB) {
			if tx.Statement.Table == "oversell_items" || tx.Statement.Model != nil {
				reads.Add(1)
			}
		})
		defer remove()
		begun := time.Now()
		for range looks {
			if left, _, err := service.Left(t.Context(), s.sku); left != 9 || err != nil {
				t.Fatalf("%d left, %v; want 9", left, err)
			}
		}
		// One read for each look, and one a second for the comparison.
		if n, most := reads.Load(), looks+2+int64(time.Since(begun)/time.Second); n > most {
			t.Errorf("the row was read %d times by %d looks, want %d at most", n, looks, most)
		}
	})
}
