package naive

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/backend/backendtest"
	"oversell/internal/stock"
)

// Without a fault each way sells all units once: the mistakes do not show in a quick try.
func TestEverythingLooksRight(t *testing.T) {
	for name, c := range map[string]Consumer{"none": {}, "ack first": {AckFirst: true}, "no claim": {NoClaim: true}, "new id": {NewID: true}} {
		t.Run(name, func(t *testing.T) {
			const units = 3
			c.Sale, c.Name, c.ClaimAfter = openSale(t, units), "C", time.Minute
			ctx := t.Context()
			for range units {
				if err := c.Accept(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Accept(ctx); !errors.Is(err, ErrSoldOut) {
				t.Errorf("one more buyer is told: %v", err)
			}
			var entries []redis.XMessage
			for len(entries) == 0 { // the first time there is no consumer group
				var err error
				if entries, err = c.next(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.consume(ctx, entries); err != nil {
				t.Fatal(err)
			}
			if n := c.orders(t); n != units {
				t.Errorf("%d orders, want %d", n, units)
			}
		})
	}
}

// The overwrite repairs a stock of which nothing is in flight.
func TestOverwriteRepairs(t *testing.T) {
	s := openSale(t, 3)
	if err := s.Buy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Redis.Decr(t.Context(), s.left()).Err(); err != nil { // a process takes a unit and dies
		t.Fatal(err)
	}
	if err := s.Overwrite(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := s.Redis.Get(t.Context(), s.left()).Int(); left != 2 || err != nil {
		t.Errorf("%d left, %v; want 2", left, err)
	}
}

func (s Sale) orders(t *testing.T) (n int64) {
	t.Helper()
	if err := s.DB.Model(&stock.Order{}).Where("sku = ?", s.Item.SKU).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

// openSale puts units of an item on sale.
func openSale(t *testing.T, units int64) Sale {
	t.Helper()
	s := Sale{
		Redis:    backendtest.DialRedis(t, backendtest.Redis(t, "embedded")),
		DB:       backendtest.DialDatabase(t, backendtest.Database(t, "embedded")),
		Item:     stock.Item{SKU: "item", SaleID: "sale", Initial: units},
		Strategy: "naive",
	}
	if err := errors.Join(stock.Migrate(t.Context(), s.DB), s.Open(t.Context())); err != nil {
		t.Fatal(err)
	}
	return s
}
