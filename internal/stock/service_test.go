package stock_test

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
)

func TestSeveralInstancesMigrateAtOnce(t *testing.T) {
	for _, kind := range backendtest.Kinds() {
		t.Run(kind, func(t *testing.T) {
			url := backendtest.Database(t, kind)
			var all sync.WaitGroup
			for range 8 {
				db := backendtest.DialDatabase(t, url)
				all.Go(func() {
					if err := stock.Migrate(t.Context(), db); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if err := stock.Migrate(t.Context(), backendtest.DialDatabase(t, url)); err != nil {
				t.Errorf("again, when all tables exist: %v", err)
			}
		})
	}
}

func TestPutStartsANewSale(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		first := s.put(t, service, 3)
		rush(t, s, 5, "v6_watchdog", service)
		second := s.put(t, service, 7)
		if first.SaleID == second.SaleID {
			t.Error("the second sale has the id of the first")
		}
		wantStock(t, s.audit(t, service), 7, 7, 0, 0)
		rush(t, s, 5, "v6_watchdog", service)
		wantStock(t, s.audit(t, service), 7, 2, 5, 5)
		item, err := service.Item(t.Context(), s.sku)
		// the first buyer sets these fields
		second.Family, second.TurnBegan, second.Generation = "v6_watchdog", item.TurnBegan, item.Generation
		if err != nil || item != second {
			t.Errorf("the item reads as %+v, %v; was put as %+v", item, err, second)
		}
	})
}

func TestPutRefusesInvalidItems(t *testing.T) {
	s := embeddedSite(t)
	service := s.instance(t, nil)
	for _, item := range []stock.Item{
		{Initial: 1},
		{SKU: "a", Initial: -1},
		{SKU: "a", Initial: stock.MaxStock + 1},
		{SKU: "a", Name: strings.Repeat("n", stock.MaxName+1)},
		{SKU: "a", Category: "a b"},
		{SKU: "a", Limit: -1},
		{SKU: "a", Limit: stock.MaxStock + 1},
		{SKU: "a", Limit: 1, Keeper: stock.InDatabase},
	} {
		_, err := service.Put(t.Context(), item)
		if offered := service.Offer(t.Context(), item); !errors.Is(err, stock.ErrInvalid) ||
			!errors.Is(offered, stock.ErrInvalid) {
			t.Errorf("%+v: put: %v, offer: %v; want %v", item, err, offered, stock.ErrInvalid)
		}
	}
}

func TestOfferedAtOnceOneSaleBegins(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		a, b := s.instance(t, nil), s.instance(t, nil)
		var all sync.WaitGroup
		for range 5 {
			for _, service := range []*stock.Service{a, b} {
				all.Go(func() {
					if err := service.Offer(t.Context(), stock.Item{SKU: s.sku, Initial: 10}); err != nil {
						t.Error(err)
					}
				})
			}
		}
		all.Wait()
		rush(t, s, 4, "v5_reentrant", a, b)
		if err := a.Offer(t.Context(), stock.Item{SKU: s.sku, Initial: 99}); err != nil {
			t.Error(err)
		}
		wantStock(t, s.audit(t, b), 10, 6, 4, 4)
	})
}

func TestDeleteLeavesNothingBehind(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.sale(t, 3)
		rush(t, s, 2, "v1_setnx", service)
		for range 2 { // an item may be deleted twice
			must(t, service.Delete(t.Context(), s.sku))
		}
		if keys := s.rdb.Keys(t.Context(), "*").Val(); len(keys) != 0 {
			t.Errorf("Redis still has %v", keys)
		}
		var orders int64
		if err := s.db.Model(&stock.Order{}).Count(&orders).Error; err != nil || orders != 0 {
			t.Errorf("%d orders are left, %v", orders, err)
		}
		for what, err := range map[string]error{
			"item":   second(service.Item(t.Context(), s.sku)),
			"left":   third(service.Left(t.Context(), s.sku)),
			"audit":  second(service.Audit(t.Context(), s.sku)),
			"deduct": second(service.Deduct(t.Context(), s.request("v1_setnx", ""))),
		} {
			if !errors.Is(err, stock.ErrUnknownItem) {
				t.Errorf("%s: got %v, want %v", what, err, stock.ErrUnknownItem)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func third[S, T any](_ S, _ T, err error) error { return err }

// generations matches the part of a key that names a sale and a generation.
var generations = regexp.MustCompile(`:[0-9a-f-]{36}:[0-9a-f-]{36}`)

// All keys in Redis have the project's prefix, and the keys of an item share a slot.
func TestKeysAreTheProjectsOwn(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		seen := make(map[string]bool)
		var mu sync.Mutex
		service := s.instance(t, withWork(func(ctx context.Context, _ string) (func(), error) {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range s.rdb.Keys(ctx, "*").Val() {
				seen[generations.ReplaceAllString(key, "")] = true
			}
			return nil, nil
		}))
		s.put(t, service, 100)
		for _, strategy := range strategies() {
			if !strategy.InDatabase() {
				rush(t, s, 1, strategy.Name, service)
			}
		}
		for key := range seen {
			if !strings.HasPrefix(key, "oversell:{"+s.sku+"}:") {
				t.Errorf("key %s does not have the item's prefix", key)
			}
		}
		// v8 and v9 have additional keys: the last token of each, and the largest token that was
		// used to write the stock.
		if len(seen) != 14 {
			t.Errorf("keys %v, want the stock, the sale, 9 locks and the tokens", slices.Sorted(maps.Keys(seen)))
		}
	})
}

// stockKey returns the Redis key of the current generation's stock.
func (s *site) stockKey(t *testing.T) string {
	t.Helper()
	sale, err := s.rdb.Get(t.Context(), "oversell:{"+s.sku+"}:sale").Result()
	must(t, err)
	saleID, rest, _ := strings.Cut(sale, ":")
	generation, _, _ := strings.Cut(rest, ":")
	return "oversell:{" + s.sku + "}:stock:" + saleID + ":" + generation
}

func TestCategoriesMapToTheirItems(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		service := s.instance(t, nil)
		for sku, category := range map[string]string{"b": "shoes", "a": "shoes", "c": "hats", "d": ""} {
			must(t, second(service.Put(t.Context(), stock.Item{SKU: sku, Category: category})))
		}
		got, err := service.Categories(t.Context())
		want := map[string][]string{"shoes": {"a", "b"}, "hats": {"c"}}
		if err != nil || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	})
}
