package stock_test

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"oversell/internal/stock"
	"oversell/internal/stock/stream"
)

// mustRestock adds units to the site's item.
func (s *site) mustRestock(t *testing.T, service *stock.Service, key string, add int64) stock.Restocked {
	t.Helper()
	done, err := service.Restock(t.Context(), s.sku, key, add)
	if err != nil {
		t.Errorf("adding %d units: %v", add, err)
	}
	return done
}

// Two admins each restock at an instance, and sometimes repeat a request with the same key, while
// buyers buy. Exactly the units that were added are sold, and no others.
func TestRestocksUnderLoad(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		which := func(v variant) bool { return v.holds() && v.oneLock() }
		s.eachVariant(t, which, func(t *testing.T, v variant) { s.restockUnderLoad(t, v.strategy) })
		t.Run(streamed, func(t *testing.T) {
			s.sku, s.keeper = newSKU(), stock.InRedis
			s.restockUnderLoad(t, streamed)
		})
	})
}

func (s *site) restockUnderLoad(t *testing.T, strategy string) {
	const initial, restocks, keys, each = 10, 10, 8, 5
	const units = initial + keys*each
	instances := []*stock.Service{s.instance(t, nil), s.instance(t, nil)}
	s.put(t, instances[0], initial)
	for _, service := range instances {
		consume(t, service, stream.Consumer{})
	}
	var all sync.WaitGroup
	var replayed atomic.Int64
	const admins = 2
	for a := range admins {
		all.Go(func() {
			for i := a; i < restocks; i += admins {
				if s.mustRestock(t, instances[a%2], strconv.Itoa(i%keys), each).Replayed {
					replayed.Add(1)
				}
			}
		})
	}
	during, _, _ := rush(t, s, units/2, strategy, instances...)
	all.Wait()
	if replayed.Load() != restocks-keys {
		t.Errorf("%d restocks were replayed, want %d", replayed.Load(), restocks-keys)
	}
	s.settled(t, instances[0])
	wantStock(t, s.audit(t, instances[0]), units, int64(units-during), int64(during), int64(during))
	if after, _, _ := rush(t, s, units, strategy, instances...); during+after != units {
		t.Errorf("%d units were sold during the restocks and %d after, want %d together", during, after, units)
	}
	s.settled(t, instances[1])
	wantStock(t, s.audit(t, instances[1]), units, 0, units, units)
}

// Units are added, again and again, when a lock holder has read the stock and is about to write it.
// The holder's write does not overwrite them, and buyers who wait for the lock get them.
func TestRestockBesideAHolder(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		which := func(v variant) bool {
			waits := v.strategy == "v6_watchdog" || v.strategy == "v7_queue" // each in its own way
			// The restock would wait for the row lock of sql_for_update.
			return v.holds() && (v.oneLock() || waits) && v.strategy != "sql_for_update"
		}
		s.eachVariant(t, which, func(t *testing.T, v variant) {
			service := s.sale(t, 1)
			inside, resume := stopInWork(t, s, v.strategy)
			<-inside
			var waiters []<-chan outcome
			if strings.HasPrefix(v.strategy, "v") { // other strategies do not wait, and buy the last unit
				for range 2 {
					waiters = append(waiters, order(t.Context(), service, s.request(v.strategy, "")))
				}
			}
			for range 20 {
				pause() // longer than it takes a waiter to notice that the generation has ended
				s.mustRestock(t, service, "", 1)
			}
			if err := resume(); err != nil {
				t.Errorf("the holder got %v", err)
			}
			for _, done := range waiters {
				if o := <-done; o.err != nil {
					t.Errorf("a buyer who waited got %v", o.err)
				}
			}
			sold := int64(1 + len(waiters))
			wantStock(t, s.audit(t, service), 21, 21-sold, sold, sold)
		})
	})
}

// Added units survive the loss of Redis, and a repair, because the database has them.
func TestRestockOutlivesRedis(t *testing.T) {
	eachCase(t, losses, func(t *testing.T, s *site, lose func(*testing.T, *site) error) {
		for _, strategy := range []string{"v6_watchdog", "watch", "lua_atomic", "lua_batch", streamed} {
			s.sku = newSKU()
			service := s.instance(t, nil)
			consume(t, service, stream.Consumer{})
			s.put(t, service, 3)
			rush(t, s, 2, strategy, service)
			s.mustRestock(t, service, "", 4)
			rush(t, s, 1, strategy, service)
			s.settled(t, service)
			must(t, lose(t, s))
			if _, err := service.Repair(t.Context(), s.sku); err != nil {
				t.Errorf("%s: %v", strategy, err)
			}
			wantStock(t, s.audit(t, service), 7, 4, 3, 3)
		}
	})
}

// A restock that is repeated with its key adds nothing, and a key belongs to one restock of one sale.
func TestRestockIsRepeated(t *testing.T) {
	eachSite(t, func(t *testing.T, s *site) {
		for _, s.keeper = range []stock.Backend{stock.InRedis, stock.InDatabase, stock.InHolds} {
			s.sku = newSKU()
			service := s.instance(t, nil)
			item := s.put(t, service, 10)
			want := stock.Restocked{SKU: s.sku, SaleID: item.SaleID, Added: 5, Initial: 15}
			if got := s.mustRestock(t, service, "k", 5); got != want {
				t.Errorf("%s: got %+v, want %+v", s.keeper, got, want)
			}
			s.mustRestock(t, service, "other", 1)
			want.Replayed = true
			if got := s.mustRestock(t, service, "k", 5); got != want {
				t.Errorf("%s: repeated it is %+v, want %+v", s.keeper, got, want)
			}
			if _, err := service.Restock(t.Context(), s.sku, "k", 6); !errors.Is(err, stock.ErrKeyReused) {
				t.Errorf("%s: with another number: got %v, want %v", s.keeper, err, stock.ErrKeyReused)
			}
			wantStock(t, s.audit(t, service), 16, 16, 0, 0)
			s.put(t, service, 10)
			if got := s.mustRestock(t, service, "k", 6); got.Initial != 16 || got.Replayed {
				t.Errorf("%s: in the next sale it is %+v", s.keeper, got)
			}
		}
	})
}

func TestRestockIsRefused(t *testing.T) {
	s := embeddedSite(t)
	service := s.sale(t, 10)
	for _, r := range []struct {
		sku, key string
		add      int64
		want     error
	}{
		{s.sku, "", 0, stock.ErrInvalid},
		{s.sku, "", -1, stock.ErrInvalid},
		{s.sku, "", stock.MaxStock - 9, stock.ErrInvalid},
		{s.sku, "", stock.MaxStock + 1, stock.ErrInvalid},
		{s.sku, "with a space", 1, stock.ErrInvalid},
		{"no sku", "", 1, stock.ErrInvalid},
		{newSKU(), "", 1, stock.ErrUnknownItem},
	} {
		if done, err := service.Restock(t.Context(), r.sku, r.key, r.add); !errors.Is(err, r.want) {
			t.Errorf("%+v: got %+v, %v", r, done, err)
		}
	}
	s.mustRestock(t, service, "", stock.MaxStock-10)
	wantStock(t, s.audit(t, service), stock.MaxStock, stock.MaxStock, 0, 0)
}
