package stock_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"oversell/internal/stock"
)

// The pages of orders contain every order of the current sale once, sorted by id, and no order of
// another item or of the previous sale.
func TestOrdersAreListedPageByPage(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		shop := s.sale(t, 100)
		buy := func(sku, key string, quantity int64) stock.Order {
			t.Helper()
			res, err := shop.Deduct(t.Context(),
				stock.Request{SKU: sku, Quantity: quantity, Strategy: "lua_atomic", IdempotencyKey: key, Owner: "me"})
			must(t, err)
			return res.Order
		}
		buy(s.sku, "", 1) // an order of the previous sale
		item, err := shop.Put(t.Context(), stock.Item{SKU: s.sku, Initial: 100})
		must(t, err)
		other := newSKU()
		must(t, second(shop.Put(t.Context(), stock.Item{SKU: other, Initial: 100})))
		var want []stock.ListedOrder
		for i := range 7 {
			key := ""
			if i%2 == 0 {
				key = fmt.Sprint("key-", i)
			}
			o := buy(s.sku, key, int64(i+1))
			want = append(want,
				stock.ListedOrder{ID: o.ID, Quantity: o.Quantity, Strategy: "lua_atomic", CreatedAt: o.CreatedAt,
					KeyHash: stock.KeyHash(key)})
			buy(other, key, 1)
		}
		slices.SortFunc(want, func(a, b stock.ListedOrder) int { return strings.Compare(a.ID, b.ID) })
		for _, limit := range []int{1, 3, 7, 8, stock.MaxOrders} {
			var got []stock.ListedOrder
			for after, pages := "", 0; ; pages++ {
				page, err := shop.Orders(t.Context(), s.sku, after, limit)
				if err != nil || pages > 7 {
					t.Fatalf("limit %d: page %d: %v", limit, pages, err)
				}
				if page.SKU != s.sku || page.SaleID != item.SaleID || len(page.Orders) > limit {
					t.Errorf("limit %d: %d orders of sale %s of %s", limit, len(page.Orders), page.SaleID, page.SKU)
				}
				got = append(got, page.Orders...)
				if after = page.Next; after == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("limit %d: %+v, want %+v", limit, got, want)
			}
		}
	})
}
