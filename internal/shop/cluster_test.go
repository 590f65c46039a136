package shop_test

import (
	"net/http"
	"testing"
	"time"

	"oversell/internal/backend/backendtest"
	"oversell/internal/web"
)

// onACluster opens two shops on a Redis Cluster that sell the item "hot" with a strategy.
func onACluster(t *testing.T, strategy string, units int64) (a, b *running, c *backendtest.RedisCluster, dbURL string) {
	t.Helper()
	c, dbURL = backendtest.LocalCluster(t), backendtest.Database(t, "local")
	cfg := config(c.URL(), dbURL, units)
	cfg.Strategy, cfg.Stock.Wait = strategy, 5*time.Second
	return open(t, cfg), open(t, cfg), c, dbURL
}

// awaitAnswers waits until the crowd has n more answers.
func (c *crowd) awaitAnswers(n int) {
	count := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.answers)
	}
	for before := count(); count() < before+n; time.Sleep(time.Millisecond) {
	}
}

// settled waits until no updates are lost and no orders are unwritten, and returns that audit.
func (r *running) settled(t *testing.T) web.Audit {
	t.Helper()
	for ; ; time.Sleep(20 * time.Millisecond) {
		a := r.audit(t)
		if a.LostUpdates == 0 && a.Unwritten == 0 {
			return a
		}
	}
}

// told counts the orders in replies to buyers, and fails if two buyers got the same order.
func told(t *testing.T, answers []answer) (orders int64) {
	t.Helper()
	seen := make(map[string]bool)
	for _, a := range answers {
		switch {
		case a.status != http.StatusOK && a.status != http.StatusAccepted:
		case seen[a.orderID]:
			t.Errorf("two buyers were told of order %s", a.orderID)
		default:
			seen[a.orderID] = true
		}
	}
	return int64(len(seen))
}

// No unit is lost or sold twice while the item's slot moves to another primary. Its keys move first,
// one at a time, so that a script's keys may be on both servers; the slot itself moves last.
func TestSaleIsExactWhileItsSlotMoves(t *testing.T) {
	for _, strategy := range []string{"v8_fenced", "lua_batch", "lua_stream"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			const units = 1_000_000
			a, b, c, _ := onACluster(t, strategy, units)
			one, two := a.crowd(20), b.crowd(20)
			one.awaitSales(20)
			two.awaitSales(20)
			moved := 0
			c.Migrate(t, c.Slot(t, "{hot}"), func(left int) {
				moved++
				if left > 0 {
					one.awaitAnswers(5)
					two.awaitAnswers(5)
				}
			})
			one.awaitSales(20)
			two.awaitSales(20)
			answers := append(one.goHome(), two.goHome()...)
			found := a.settled(t)
			sold := told(t, answers)
			if found.Sold != sold || found.LostUpdates != 0 || found.Duplicates != 0 || moved < 2 {
				t.Errorf("buyers were told of %d orders, %d keys were moved, found %+v", sold, moved, found)
			}
			outcomes := map[int]int{}
			for _, a := range answers {
				outcomes[a.status]++
			}
			t.Logf("%d keys moved; answers by status %v", moved, outcomes)
		})
	}
}

// The primary of the item's slot is killed, and its replica, which lacks the last sales, replaces it.
// No unit is sold twice, because the stock is counted again from the orders. Orders that were only
// accepted are lost with the primary.
func TestNothingIsSoldTwiceWhenAPrimaryFails(t *testing.T) {
	for strategy, units := range map[string]int64{"v8_fenced": 200, "lua_batch": 1500, "lua_stream": 1500} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			a, b, c, _ := onACluster(t, strategy, units)
			one, two := a.crowd(10), b.crowd(10)
			one.awaitSales(10)
			slot := c.Slot(t, "{hot}")
			c.Cut(t, slot)
			one.awaitSales(20)
			two.awaitSales(20)
			c.Failover(t, slot)
			for _, r := range []*running{a, b} {
				for r.buy().status != http.StatusConflict { // until it is sold out
					time.Sleep(time.Millisecond)
				}
			}
			answers := append(one.goHome(), two.goHome()...)
			found := a.settled(t)
			if found.Oversold != 0 || found.Sold != units || found.Duplicates != 0 || found.LostUpdates != 0 {
				t.Errorf("buyers were told of %d orders, and the audit finds %+v", told(t, answers), found)
			}
			t.Logf("buyers were told of %d orders, and %d were written", told(t, answers), found.Sold)
		})
	}
}
