package stock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"oversell/internal/stock"
)

// sameKey sends n concurrent requests with one key, spread over the instances, and returns the ids
// of the orders in the answers.
func sameKey(t *testing.T, s *site, n int, strategy, key string, instances ...*stock.Service) []string {
	t.Helper()
	ids := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		req := s.request(strategy, key)
		all.Go(func() {
			res, err := instances[i%len(instances)].Deduct(t.Context(), req)
			if err != nil {
				t.Error(err)
			}
			ids[i] = res.Order.ID
		})
	}
	all.Wait()
	return ids
}

func wantOneOrder(t *testing.T, ids []string) {
	t.Helper()
	slices.Sort(ids)
	if different := slices.Compact(ids); len(different) != 1 || different[0] == "" {
		t.Errorf("requests with one key were answered with the orders %q, want one", different)
	}
}

// otherRequests returns requests with the key of r, but with another quantity, another buyer, or none.
func otherRequests(r stock.Request) []stock.Request {
	more, other, nobody := r, r, r
	more.Quantity++
	other.Buyer = "bob"
	nobody.Buyer = ""
	for _, one := range []*stock.Request{&more, &other, &nobody} {
		one.Owner = fmt.Sprintf("buyer-%d", owners.Add(1))
	}
	return []stock.Request{more, other, nobody}
}

// wantKeyReused fails unless different requests with the key of r get ErrKeyReused.
func wantKeyReused(t *testing.T, service *stock.Service, r stock.Request) {
	t.Helper()
	for _, other := range otherRequests(r) {
		if res, err := service.Deduct(t.Context(), other); !errors.Is(err, stock.ErrKeyReused) {
			t.Errorf("%d for %q after %d for %q: got %+v, %v; want %v",
				other.Quantity, other.Buyer, r.Quantity, r.Buyer, res.Order, err, stock.ErrKeyReused)
		}
	}
}

// Different requests with one key come at the same time, to two instances. One is served, and gets
// its order again when it is repeated. The others are refused.
func TestAKeyBelongsToOneRequest(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		s.eachVariant(t, variant.oneLock, func(t *testing.T, v variant) {
			s.put(t, a, 10)
			bound(t, s, v.strategy, a, b)
		})
	})
}

// bound sends different requests with one key at the same time, repeats the one that was served, and
// checks that the key belongs to that one.
func bound(t *testing.T, s *site, strategy string, a, b *stock.Service) {
	t.Helper()
	r := s.request(strategy, "click")
	r.Buyer = "ann"
	asked := append(otherRequests(r), r)
	orders, errs := make([]stock.Order, len(asked)), make([]error, len(asked))
	var all sync.WaitGroup
	for i, one := range asked {
		all.Go(func() {
			res, err := []*stock.Service{a, b}[i%2].Deduct(t.Context(), one)
			orders[i], errs[i] = res.Order, err
		})
	}
	all.Wait()
	first := slices.Index(errs, nil)
	if first < 0 {
		t.Fatalf("nobody was served: %v", errs)
	}
	for i, err := range errs {
		if i != first && !errors.Is(err, stock.ErrKeyReused) {
			t.Errorf("%+v beside %+v: got %v, want %v", asked[i], asked[first], err, stock.ErrKeyReused)
		}
	}
	again, err := b.Deduct(t.Context(), asked[first])
	if err != nil || !again.Replayed || again.Order.ID != orders[first].ID {
		t.Errorf("repeated: %+v, %v; want order %s", again, err, orders[first].ID)
	}
}

// Requests with the same key for the last unit all get the order of the first; none gets ErrSoldOut.
func TestSameKeyAtOnceOnTheLastUnit(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		s.eachVariant(t, variant.oneLock, func(t *testing.T, v variant) {
			s.put(t, service, 1)
			wantOneOrder(t, sameKey(t, s, 10, v.strategy, "click", service))
			wantStock(t, s.audit(t, service), 1, 0, 1, 1)
		})
	})
}

func TestSameKeyLaterIsAnsweredWithTheFirstOrder(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 1)
		first, err := service.Deduct(t.Context(), s.request("v6_watchdog", "click"))
		if err != nil || first.Replayed {
			t.Fatalf("replayed %v, %v", first.Replayed, err)
		}
		// By now the item is sold out. The second request also names another strategy.
		again, err := service.Deduct(t.Context(), s.request("watch", "click"))
		if err != nil || !again.Replayed {
			t.Fatalf("the second: replayed %v, %v; want a replay", again.Replayed, err)
		}
		if !again.Order.CreatedAt.Equal(first.Order.CreatedAt) || again.Order.ID != first.Order.ID ||
			again.Order.Strategy != "v6_watchdog" {
			t.Errorf("answered with %+v, want the first order %+v", again.Order, first.Order)
		}
		wantRefused(t, service, s.request("watch", "another"), stock.ErrSoldOut)
	})
}

// Keys and SKUs are case-sensitive: if "A" and "a" were equal, a buyer would get another's order.
func TestKeysAndSKUsDifferInCase(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		lower := s.sku
		s.put(t, service, 10)
		for _, key := range []string{"click", "CLICK", "Click"} {
			res, err := service.Deduct(t.Context(), s.request("v4_lua", key))
			if err != nil || res.Replayed {
				t.Errorf("key %s: replayed %v, %v; want an order", key, res.Replayed, err)
			}
		}
		s.sku = strings.ToUpper(lower)
		wantRefused(t, service, s.request("v4_lua", ""), stock.ErrUnknownItem)
		s.put(t, service, 5)
		s.sku = lower
		wantStock(t, s.audit(t, service), 10, 7, 3, 3)
	})
}
