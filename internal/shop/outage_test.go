package shop_test

import (
	"net/http"
	"testing"

	"oversell/internal/backend/backendtest"
)

// outage makes a crowd buy, stops a backend, checks the answers of the shop, and restarts the
// backend. It returns the crowd's answers.
func outage(t *testing.T, r *running, away func(), back func() error) []answer {
	t.Helper()
	c := r.crowd(50)
	c.awaitSales(50)
	away()
	for r.buy().status != http.StatusServiceUnavailable {
	}
	for range 20 {
		if a := r.buy(); a.status != http.StatusServiceUnavailable || a.code != "backend" {
			t.Errorf("without the backend: %+v, want a 503", a)
		}
	}
	if err := back(); err != nil {
		t.Fatal(err)
	}
	first := r.eventually()
	c.awaitSales(20)
	answers := append(c.goHome(), first)
	for _, a := range answers {
		if a.status != http.StatusOK && a.status != http.StatusServiceUnavailable {
			t.Errorf("a buyer got %+v", a)
		}
	}
	return answers
}

func TestRedisGoesAndComesBack(t *testing.T) {
	const units = 1_000_000
	server, dbURL := backendtest.RestartableRedis(t), backendtest.Database(t, "local")
	r := open(t, config(server.URL, dbURL, units))
	answers := outage(t, r, server.Kill, func() error { return server.Restart(t.Context()) })
	db := backendtest.DialDatabase(t, dbURL)
	wantOrders(t, db, answers)
	a := r.audit(t)
	if a.Oversold != 0 || a.LostUpdates < -5 || a.LostUpdates > 5 {
		t.Errorf("the audit finds %+v", a)
	}
}

func TestDatabaseGoesAndComesBack(t *testing.T) {
	const units = 1_000_000
	server, redisURL := backendtest.RestartableDatabase(t), backendtest.Redis(t, "local")
	r := open(t, config(redisURL, server.URL, units))
	outage(t, r, server.Kill, func() error { return server.Restart(t.Context()) })
	// Only the orders that were being written when the database was killed may be lost,
	// with their units taken.
	a := r.audit(t)
	if a.Oversold != 0 || a.LostUpdates > 0 || a.LostUpdates < -5 {
		t.Errorf("the audit finds %+v", a)
	}
	t.Logf("units taken with no order: %d", -a.LostUpdates)
}
