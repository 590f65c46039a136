package shop_test

import (
	"net/http"
	"testing"

	"oversell/internal/backend/backendtest"
)

// While Redis is down, buyers get a 503. When Redis is back they can buy again, and every confirmed
// order is in the database.
func TestRedisGoesAndComesBack(t *testing.T) {
	server, dbURL := backendtest.RestartableRedis(t), backendtest.Database(t, "local")
	r := open(t, config(server.URL, dbURL, 1_000_000))
	c := r.crowd(50)
	c.awaitSales(50)
	server.Kill()
	wantUnavailable(t, r)
	must(t, server.Restart(t.Context()))
	first := r.eventually()
	c.awaitSales(20)
	wantOrders(t, backendtest.DialDatabase(t, dbURL), append(c.goHome(), first))
	if a := r.audit(t); a.Oversold != 0 || a.LostUpdates < -5 || a.LostUpdates > 5 {
		t.Errorf("the audit finds %+v", a)
	}
}

// While the database is away, buyers get a 503. Once it is back they buy again. Only the orders that
// were being written when it was killed may be lost, with their units taken.
func TestDatabaseGoesAndComesBack(t *testing.T) {
	server, redisURL := backendtest.RestartableDatabase(t), backendtest.Redis(t, "local")
	r := open(t, config(redisURL, server.URL, 1_000_000))
	c := r.crowd(50)
	c.awaitSales(50)
	server.Kill()
	wantUnavailable(t, r)
	must(t, server.Restart(t.Context()))
	r.eventually()
	c.awaitSales(20)
	c.goHome()
	if a := r.audit(t); a.Oversold != 0 || a.LostUpdates > 0 || a.LostUpdates < -5 {
		t.Errorf("the audit finds %+v", a)
	}
}

// wantUnavailable buys until a buyer gets a 503, and checks that the next buyers get it, too.
func wantUnavailable(t *testing.T, r *running) {
	t.Helper()
	for r.buy().status != http.StatusServiceUnavailable {
	}
	for range 20 {
		if a := r.buy(); a.status != http.StatusServiceUnavailable || a.code != "backend" {
			t.Errorf("without a backend: %+v, want a 503", a)
		}
	}
}
