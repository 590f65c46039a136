//go:build unix

package shop_test

import (
	"net/http"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
)

// Redis hangs: it still accepts connections, but does not answer.
func TestRedisHangsAndGoesOn(t *testing.T) {
	server := backendtest.RestartableRedis(t)
	cfg := config(server.URL, backendtest.Database(t, "embedded"), 1_000_000)
	cfg.TTL, cfg.Stock.Wait = time.Second, 2*time.Second
	r := open(t, cfg)
	c := r.crowd(50)
	c.awaitSales(50)
	must(t, server.Pause())
	c.goHome()
	if a := r.buy(); a.status != http.StatusServiceUnavailable {
		t.Errorf("while Redis hangs: %+v, want a 503", a)
	}
	must(t, server.Continue())
	r.eventually()
	if a := r.audit(t); a.Oversold != 0 || a.LostUpdates > 0 {
		t.Errorf("the audit finds %+v", a)
	}
}
