package shop_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/shop"
	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

// accepting opens a shop whose Redis ends together with the shop, and makes it accept 20 orders.
func accepting(t *testing.T, adjust func(*shop.Config)) *running {
	t.Helper()
	cfg := config(backendtest.Redis(t, "embedded"), backendtest.Database(t, "embedded"), 60)
	cfg.Strategy, cfg.RedisEnds = "lua_stream", true
	adjust(&cfg)
	r := open(t, cfg)
	r.accept(t, 20)
	return r
}

// wantLost ends the shop and fails unless it reports that this many orders are lost.
func (r *running) wantLost(t *testing.T, n string) {
	t.Helper()
	r.stop()
	err := <-r.ended
	close(r.ended)
	if !errors.Is(err, shop.ErrLost) || !strings.HasSuffix(err.Error(), ": "+n) {
		t.Errorf("the shop ended with %v, want %v: %s", err, shop.ErrLost, n)
	}
}

// A shop whose Redis ends together with the shop writes its accepted orders before it ends, even if
// that takes longer than other shops would wait.
func TestAShopWritesAcceptedOrdersBeforeItsRedisEnds(t *testing.T) {
	t.Parallel() // this test mostly waits
	slow := make(chan struct{})
	var dbURL string
	r := accepting(t, func(cfg *shop.Config) {
		dbURL = cfg.DBURL
		cfg.Consumer.Seam = func(string) error {
			<-slow
			return nil
		}
	})
	time.AfterFunc(time.Second, func() { close(slow) })
	r.close(t)
	var n int64
	if err := backendtest.DialDatabase(t, dbURL).Model(&stock.Order{}).Count(&n).Error; err != nil || n != 20 {
		t.Errorf("%d orders are written, %v; want 20", n, err)
	}
}

// A shop whose Redis ends with it reports how many accepted orders are lost, no matter which process
// should have written them.
func TestAShopCountsTheOrdersThatAreLost(t *testing.T) {
	t.Parallel()
	ends := func(string) error { return stream.ErrEnded }
	for name, adjust := range map[string]func(*shop.Config){
		"no consumer":       func(cfg *shop.Config) { cfg.NoConsumer = true },
		"the consumer ends": func(cfg *shop.Config) { cfg.Consumer.Seam = ends },
	} {
		t.Run(name, func(t *testing.T) {
			accepting(t, adjust).wantLost(t, "20")
		})
	}
}

// A shop whose Hurry context ends does not wait for the database any more, but still counts the lost
// orders.
func TestAShopInAHurryCountsTheOrdersThatAreLost(t *testing.T) {
	t.Parallel()
	hurry, now := context.WithCancel(t.Context())
	closed := make(chan struct{})
	r := accepting(t, func(cfg *shop.Config) {
		cfg.Hurry = hurry
		db := backendtest.DialDatabase(t, cfg.DBURL)
		cfg.Consumer.Seam = func(seam string) error {
			if seam == stream.SeamRead {
				return db.Exec("DROP TABLE IF EXISTS oversell_orders").Error
			}
			return nil
		}
	})
	time.AfterFunc(500*time.Millisecond, func() {
		now()
		close(closed)
	})
	r.wantLost(t, "20")
	<-closed
}
