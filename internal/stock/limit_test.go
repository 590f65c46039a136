package stock_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"gorm.io/gorm"

	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

// putLimited begins a sale of the site's item in which a buyer may buy at most limit units.
func (s *site) putLimited(t *testing.T, service *stock.Service, units, limit int64) stock.Item {
	t.Helper()
	item, err := service.Put(t.Context(), stock.Item{SKU: s.sku, Initial: units, Limit: limit})
	must(t, err)
	return item
}

// buyAs buys units of the site's item as the given buyer.
func (s *site) buyAs(t *testing.T, service *stock.Service, buyer, key string, quantity int64) (stock.Result, error) {
	t.Helper()
	req := s.request(streamed, key)
	req.Buyer, req.Quantity = buyer, quantity
	return service.Deduct(t.Context(), req)
}

// mustBuy buys one unit as the given buyer, and returns the order's id.
func (s *site) mustBuy(t *testing.T, service *stock.Service, buyer string) (orderID string) {
	t.Helper()
	res, err := s.buyAs(t, service, buyer, "", 1)
	if err != nil {
		t.Fatalf("a unit for %s: %v", buyer, err)
	}
	return res.Order.ID
}

// wantLimit fails unless the limit prevents the buyer from buying this many units.
func (s *site) wantLimit(t *testing.T, service *stock.Service, buyer string, quantity int64) {
	t.Helper()
	if res, err := s.buyAs(t, service, buyer, "", quantity); !errors.Is(err, stock.ErrLimit) {
		t.Errorf("%d for %s: order %q, %v; want %v", quantity, buyer, res.Order.ID, err, stock.ErrLimit)
	}
}

// buyersKey returns the key of the counts of units per buyer in Redis.
func (s *site) buyersKey(t *testing.T) string { return s.stockKey(t) + ":buyers" }

// A buyer who sends many requests at once, to two instances, gets exactly as many units as the limit
// allows, whether or not the orders are written yet. Each buyer has a separate limit, and the next
// sale counts from zero.
func TestABuyerGetsNoMoreThanTheLimit(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.putLimited(t, a, 100, 2)
		var mu sync.Mutex
		var all sync.WaitGroup
		accepted, refused := 0, 0
		for i := range 50 {
			all.Go(func() {
				_, err := s.buyAs(t, []*stock.Service{a, b}[i%2], "ann", "", 1)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					accepted++
				case errors.Is(err, stock.ErrLimit):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if accepted != 2 || refused != 48 {
			t.Errorf("%d accepted and %d refused, want 2 and 48", accepted, refused)
		}
		s.wantLimit(t, b, "bob", 3)
		s.mustBuy(t, b, "bob")
		s.wantLimit(t, a, "bob", 2)
		stop := consume(t, a, stream.Consumer{})
		wantStock(t, s.settled(t, a), 100, 97, 3, 3)
		stop()
		s.wantLimit(t, a, "ann", 1)
		s.mustBuy(t, a, "bob")

		s.putLimited(t, a, 10, 1)
		s.mustBuy(t, b, "ann")
		s.wantLimit(t, a, "ann", 1)
		s.put(t, a, 10) // a sale without a limit
		for range 3 {
			s.mustBuy(t, b, "ann")
		}
	})
}

// A repeated request gets its order, even if the buyer has reached the limit, and counts only once.
func TestARepeatedRequestCountsOnce(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.putLimited(t, a, 10, 2)
		var all sync.WaitGroup
		ids := make([]string, 10)
		for i := range ids {
			all.Go(func() {
				res, err := s.buyAs(t, []*stock.Service{a, b}[i%2], "ann", "click", 1)
				if err != nil {
					t.Error(err)
				}
				ids[i] = res.Order.ID
			})
		}
		all.Wait()
		first := ids[0]
		wantOneOrder(t, ids)
		s.mustBuy(t, a, "ann")
		again := func(what string) {
			t.Helper()
			if res, err := s.buyAs(t, b, "ann", "click", 1); err != nil || res.Order.ID != first {
				t.Errorf("%s: order %s, %v; want %s", what, res.Order.ID, err, first)
			}
			if _, err := s.buyAs(t, b, "ann", "another", 1); !errors.Is(err, stock.ErrLimit) {
				t.Errorf("%s: with another key: %v, want %v", what, err, stock.ErrLimit)
			}
		}
		again("accepted")
		consume(t, a, stream.Consumer{})
		wantStock(t, s.settled(t, a), 10, 8, 2, 2)
		again("written")
	})
}

// If Redis loses any of an item's keys, the units of each buyer are counted again from the orders.
func TestLimitsSurviveALostRedis(t *testing.T) {
	eachCase(t, map[string]func(t *testing.T, s *site) []string{
		"stock":  func(t *testing.T, s *site) []string { return []string{s.stockKey(t)} },
		"sale":   func(_ *testing.T, s *site) []string { return []string{"oversell:{" + s.sku + "}:sale"} },
		"buyers": func(t *testing.T, s *site) []string { return []string{s.buyersKey(t)} },
	}, func(t *testing.T, s *site, lost func(*testing.T, *site) []string) {
		service, other := s.instance(t, nil), s.instance(t, nil)
		s.putLimited(t, service, 20, 3)
		stop := consume(t, service, stream.Consumer{})
		ids := []string{s.mustBuy(t, service, "ann"), s.mustBuy(t, service, "bob")}
		s.settled(t, service)
		stop()
		ids = append(ids, s.mustBuy(t, other, "ann")) // this order is still in the stream
		must(t, s.rdb.Del(t.Context(), lost(t, s)...).Err())
		s.wantLimit(t, other, "ann", 2)
		ids = append(ids, s.mustBuy(t, service, "ann"))
		s.wantLimit(t, service, "ann", 1)
		s.wantLimit(t, service, "bob", 3)
		consume(t, service, stream.Consumer{})
		a := s.settled(t, service)
		wantStock(t, a, 20, 16, 4, 4)
		if a.AcceptedLost != 0 {
			t.Errorf("%d accepted orders are lost", a.AcceptedLost)
		}
		s.wantWritten(t, service, ids)
	})
}

// A promoted replica with older counts accepts too many orders before a process notices. The database
// refuses these orders, their units go back on sale, and the counts are corrected.
func TestTheDatabaseEnforcesTheLimit(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.putLimited(t, service, 20, 2)
		stop := consume(t, service, stream.Consumer{})
		kept := []string{s.mustBuy(t, service, "ann"), s.mustBuy(t, service, "bob")}
		s.settled(t, service)
		stop()
		must(t, s.rdb.HSet(t.Context(), s.buyersKey(t), "ann", 0).Err())
		kept = append(kept, s.mustBuy(t, service, "ann"))
		lost := s.mustBuy(t, service, "ann")
		kept = append(kept, s.mustBuy(t, service, "bob"))
		consume(t, service, stream.Consumer{})
		a := s.until(t, service, "an order is refused",
			func(a stock.Audit) bool { return a.AcceptedLost == 1 && a.Remaining == 16 })
		wantStock(t, a, 20, 16, 4, 4)
		s.wantWritten(t, service, kept)
		s.wantState(t, service, stock.StateNotAccepted, lost)
		s.wantLimit(t, service, "ann", 1)
		s.wantRetried(t, service, stock.Retried{Left: 1}) // beyond the limit
		s.putLimited(t, service, 5, 1)
		s.wantRetried(t, service, stock.Retried{Left: 1, Over: 1}) // in another sale
		s.mustBuy(t, service, "ann")                               // units of the last sale do not count
		s.wantLimit(t, service, "ann", 1)
		wantStock(t, s.settled(t, service), 5, 4, 1, 1)
	})
}

// An order that is refused for good no longer counts towards the buyer's limit, and its units return
// to the stock. An order that may still be written keeps its units.
func TestDeadLettersAndTheLimit(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		item := s.putLimited(t, service, 20, 3)
		remove := poison(t, s, 2)
		must(t, second(s.buyAs(t, service, "bob", "", 2)))
		must(t, second(s.buyAs(t, service, "ann", "click", 3)))
		taken := "click" // the key of an order that another program wrote
		foreign := stock.Order{ID: newSKU(), SKU: s.sku, SaleID: item.SaleID, Quantity: 1, IdempotencyKey: &taken,
			Strategy: streamed}
		must(t, s.db.Session(&gorm.Session{SkipHooks: true}).Create(&foreign).Error)
		s.wantLimit(t, service, "ann", 1)
		consume(t, service, stream.Consumer{Tries: 1})
		s.until(t, service, "ann's order is refused", func(a stock.Audit) bool { return a.AcceptedLost == 1 })
		s.deadLetters(t, service, 2)
		s.wantLimit(t, service, "ann", 4)
		must(t, second(s.buyAs(t, service, "ann", "", 3))) // ann's units are given back
		s.wantLimit(t, service, "bob", 2)                  // the order of two units may still be written
		remove()
		s.wantRetried(t, service, stock.Retried{Requeued: 1, Left: 1}) // bob's order is requeued, ann's left
		s.mustBuy(t, service, "bob")
		s.wantLimit(t, service, "bob", 1)
	})
}

// An item with a limit cannot be sold by strategies that do not check the limit, whichever strategy
// comes first. Nor can a request without a buyer buy it.
func TestALimitIsCheckedOrRefused(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, withMixed)
		s.putLimited(t, service, 10, 1)
		s.mustBuy(t, service, "ann")
		for _, strategy := range strategies() {
			if strategy.Name == streamed || strategy.InDatabase() || strategy.NeedsMySQL() {
				continue
			}
			req := s.request(strategy.Name, "")
			req.Buyer = "ann"
			wantRefused(t, service, req, stock.ErrUnlimited)
		}
		for name, want := range map[string]string{"": "buyer is missing", "a b": "printable",
			strings.Repeat("x", stock.MaxBuyer+1): "printable"} {
			if _, err := s.buyAs(t, service, name, "", 1); !errors.Is(err, stock.ErrInvalid) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("buyer %q: %v, want %v that says %q", name, err, stock.ErrInvalid, want)
			}
		}
		consume(t, service, stream.Consumer{})
		wantStock(t, s.settled(t, service), 10, 9, 1, 1)
	})
}
