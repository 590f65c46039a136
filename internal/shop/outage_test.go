package shop_test

import (
	"net/http"
	"testing"

	"oversell/internal/backend/backendtest"
)

// While Redis is away, buyers get a 503. Once it is back they buy again, and every confirmed order is
// in the database.
func TestRedisGoesAndComesBack(t *testing.T) {
	server, dbURL := backendtest.RestartableRedis(t), backendtest.Database(t, "local")
	r := open(t, config(server.URL, dbURL, 1_000_000))
	c := r.crowd(50)
	c.awaitSales(50)
	server.Kill()
	for r.buy().status != http.StatusServiceUnavailable {
	}
	for range 20 {
		if a := r.buy(); a.status != http.StatusServiceUnavailable || a.code != "backend" {
			t.Errorf("without Redis: %+v, want a 503", a)
		}
	}
	must(t, server.Restart(t.Context()))
	first := r.eventually()
	c.awaitSales(20)
	wantOrders(t, backendtest.DialDatabase(t, dbURL), append(c.goHome(), first))
	if a := r.audit(t); a.Oversold != 0 || a.LostUpdates < -5 || a.LostUpdates > 5 {
		t.Errorf("the audit finds %+v", a)
	}
}
