package stock_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/locks/locktest"
)

// counts reports whether a statement adds up the orders of a sale.
func counts(tx *gorm.DB) bool {
	selected := strings.Join(tx.Statement.Selects, ",")
	if e, ok := tx.Statement.Clauses["SELECT"].Expression.(clause.Expr); ok {
		selected = e.SQL
	}
	return tx.Statement.Table == "oversell_orders" && strings.Contains(selected, "SUM(quantity)")
}

// wantLeft waits until Redis has the given number of units, without calling the shop.
func (s *site) wantLeft(t *testing.T, want string) {
	t.Helper()
	eventually(t, "Redis has "+want+" units", func() (bool, any) {
		got := s.rdb.Get(t.Context(), s.stockKey(t)).Val()
		return got == want, got
	})
}

// A client that leaves while its item is read says nothing about Redis: the generation goes on.
func TestReaderThatLeavesEndsNoGeneration(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 10)
		s.buy(t, service, "v4_lua")
		before := s.stockKey(t)
		left, leave := context.WithCancel(t.Context())
		leave()
		_, _, _ = service.Left(left, s.sku)
		_, _, err := service.Left(t.Context(), s.sku) // would end a generation that is in doubt
		must(t, err)
		if after := s.stockKey(t); after != before {
			t.Errorf("the stock is at %s, and was at %s", after, before)
		}
	})
}

// The settler repeats a count that failed, and ends with the service.
func TestSettlerTriesAgainUntilClose(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 10)
		rush(t, s, 1, "lua_atomic", service)
		var tried atomic.Int64
		var broken atomic.Bool
		defer s.onReads(func(tx *gorm.DB) {
			if counts(tx) && broken.Load() {
				tried.Add(1)
				_ = tx.AddError(errBroken)
			}
		})()
		loseOne := func() {
			s.failOnce(locktest.LoseReply(locktest.ErrCut), "evalsha", "eval")
			_, _ = service.Deduct(t.Context(), s.request("lua_atomic", ""))
		}
		broken.Store(true)
		loseOne()
		eventually(t, "the settler has tried again", func() (bool, any) { return tried.Load() >= 2, nil })
		broken.Store(false)
		s.wantLeft(t, "9")
		broken.Store(true)
		loseOne()
		service.Close() // TestMain then checks that no goroutine is left
	})
}
