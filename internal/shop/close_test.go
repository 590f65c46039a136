package shop_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"oversell/internal/backend"
	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
)

// When a shop closes under load, every confirmed order is in the database, and stock and orders agree.
func TestCloseUnderLoad(t *testing.T) {
	t.Parallel()
	const units = 100_000
	for _, kind := range backendtest.Kinds() {
		for _, strategy := range []string{"watch", "v1_setnx", "v6_watchdog"} {
			t.Run(kind+"/"+strategy, func(t *testing.T) {
				redisURL, dbURL := backendtest.Redis(t, kind), backendtest.Database(t, kind)
				cfg := config(redisURL, dbURL, units)
				cfg.Strategy = strategy
				r := open(t, cfg)
				c := r.crowd(100)
				c.awaitSales(50)
				r.close(t)
				answers := c.goHome()
				db := backendtest.DialDatabase(t, dbURL)
				wantOrders(t, db, answers)
				wantAgreement(t, backendtest.DialRedis(t, redisURL), db, units)
			})
		}
	}
}

// wantOrders checks that every confirmed order is in the database. There may be additional orders
// only for replies that were cut off.
func wantOrders(t *testing.T, db *gorm.DB, answers []answer) {
	t.Helper()
	var ids []string
	must(t, db.Model(&stock.Order{}).Pluck("id", &ids).Error)
	unconfirmed := make(map[string]bool)
	for _, id := range ids {
		unconfirmed[id] = true
	}
	confirmed, cut := 0, 0
	for _, a := range answers {
		switch a.status {
		case http.StatusOK:
			confirmed++
			if !unconfirmed[a.orderID] {
				t.Errorf("the confirmed order %s is not in the database", a.orderID)
			}
			delete(unconfirmed, a.orderID)
		case 0:
			cut++
		case http.StatusServiceUnavailable:
		default:
			t.Errorf("a buyer got %d %s", a.status, a.code)
		}
	}
	if len(unconfirmed) > cut {
		t.Errorf("%d orders were not confirmed, and only %d replies were cut off", len(unconfirmed), cut)
	}
	t.Logf("%d orders confirmed, %d replies cut off", confirmed, cut)
}

// wantAgreement checks that the stock in Redis agrees with the orders in the database.
func wantAgreement(t *testing.T, rdb redis.UniversalClient, db *gorm.DB, units int64) {
	t.Helper()
	s := stock.New(stock.Config{DB: db, Redis: rdb, History: backend.RedisHistory(rdb)})
	defer s.Close()
	a, err := s.Audit(t.Context(), "hot")
	must(t, err)
	if a.LostUpdates != 0 || a.Initial != units || a.Duplicates != 0 {
		t.Errorf("the audit finds %+v", a)
	}
}

// A closing shop does not wait for buyers that wait for a dead process's lock, which here lasts an
// hour.
func TestCloseTurnsWaitersAway(t *testing.T) {
	redisURL := backendtest.Redis(t, "local")
	cfg := config(redisURL, backendtest.Database(t, "embedded"), 10)
	cfg.Strategy, cfg.Stock.Wait = "v1_setnx", time.Hour
	r := open(t, cfg)
	rdb := backendtest.DialRedis(t, redisURL)
	must(t, rdb.Set(t.Context(), "oversell:{hot}:lock:v1_setnx", "a dead process", 0).Err())
	c := r.crowd(20)
	for rdb.Exists(t.Context(), "oversell:{hot}:sale").Val() == 0 {
		time.Sleep(time.Millisecond)
	}
	r.close(t)
	for _, a := range c.goHome() {
		if a.status != 0 && a.code != "closing" {
			t.Errorf("a waiter got %+v", a)
		}
	}
}
