package holds_test

import (
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"oversell/internal/holds"
	"oversell/internal/stock"
)

// The item is restocked twenty times, some requests being repetitions with the same key, while
// buyers hold, release and pay. Afterwards no unit is missing and none was added twice.
func TestRestocksUnderLoad(t *testing.T) {
	const initial, restocks, keys, more = 10, 20, 15, 5
	const units = initial + keys*more
	each(t, initial, func(t *testing.T, s *shop) {
		var all sync.WaitGroup
		all.Go(func() {
			for i := range restocks {
				if _, err := s.stock.Restock(t.Context(), "hot", strconv.Itoa(i%keys), more); err != nil {
					t.Error(err)
				}
			}
		})
		var sold atomic.Int64
		buyers := make(chan struct{}, 3) // few at a time: they queue for one row, and a call may take 5 s
		for i := range units {
			all.Go(func() {
				buyers <- struct{}{}
				defer func() { <-buyers }()
				h, err := s.Hold(t.Context(),
					h3, holds.Request{SKU: "hot", Buyer: strconv.Itoa(i), Quantity: 1})
				if errors.Is(err, holds.ErrSoldOut) {
					return
				}
				if err == nil && i%3 == 0 {
					err = s.Release(t.Context(), h.ID, h.Token)
				} else if err == nil {
					_, err = s.Pay(t.Context(), h.ID, h.Token, strconv.Itoa(i))
					sold.Add(1)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		s.want(t, units-sold.Load(), 0, sold.Load())
		for range units - sold.Load() {
			s.hold(t, h3, "z")
		}
		s.want(t, 0, units-sold.Load(), sold.Load())
		s.books(t, 0)
	})
}

// h1_counter refuses restocks: it copies the units into Redis, which a restock would not change.
func TestRestockIsInTheItemsRow(t *testing.T) {
	each(t, 1, func(t *testing.T, s *shop) {
		for _, stage := range []string{"h2_status", h3} {
			s.put(t, 1)
			s.hold(t, stage, "a")
			if _, err := s.stock.Restock(t.Context(), "hot", "", 1); err != nil {
				t.Errorf("%s: %v", stage, err)
			}
			s.hold(t, stage, "b")
			s.want(t, 0, 2, 0)
		}
		s.put(t, 1)
		s.hold(t, "h1_counter", "a")
		if _, err := s.stock.Restock(t.Context(), "hot", "", 1); !errors.Is(err, stock.ErrLocation) {
			t.Errorf("h1_counter: got %v, want %v", err, stock.ErrLocation)
		}
		s.want(t, 0, 1, 0)
	})
}
