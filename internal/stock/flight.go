package stock

import (
	"context"
	"fmt"
	"sync"
)

// flights counts the units in flight in this process: units that may have been taken from
// a stock in Redis, and whose order is neither written nor given up. It is safe for
// concurrent use.
type flights struct{ of sync.Map } // *flight by SKU

type flight struct {
	mu   sync.Mutex
	now  int64
	peak int64 // the most since the last call of recent
	last int64 // the same, up to the last call
}

func (f *flights) at(sku string) *flight {
	if found, ok := f.of.Load(sku); ok {
		return found.(*flight)
	}
	found, _ := f.of.LoadOrStore(sku, new(flight))
	return found.(*flight)
}

// takeOff adds units that are about to be taken. The caller must call land.
func (f *flights) takeOff(sku string, units int64) {
	one := f.at(sku)
	one.mu.Lock()
	defer one.mu.Unlock()
	one.now += units
	one.peak = max(one.peak, one.now)
}

// land removes units whose order was written, that were put back, or that were not taken.
func (f *flights) land(sku string, units int64) {
	one := f.at(sku)
	one.mu.Lock()
	defer one.mu.Unlock()
	one.now -= units
}

// units returns how many units of an item are in flight now.
func (f *flights) units(sku string) int64 {
	one := f.at(sku)
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.now
}

// recent returns the most units that were in flight since the last call but one.
func (f *flights) recent(sku string) int64 {
	one := f.at(sku)
	one.mu.Lock()
	defer one.mu.Unlock()
	most := max(one.peak, one.last)
	one.peak, one.last = one.now, one.peak
	return most
}

// Elsewhere counts units of a sale that are out of the stock and in no order, and that are
// not lost: something else than a purchase in progress will sell them or put them back.
// Examples are orders that wait in a stream, and units that are held for a buyer. The
// location names the sale, and the generation that is current.
//
// This is the one place where such units are made known: the audit shows them as units in
// flight, a repair does not take them for stranded, and a new generation of the stock
// begins without them. A count may be too large for a moment but not too small: it must
// contain a unit from the moment it is taken until its order is committed or it is back
// in the stock.
type Elsewhere func(ctx context.Context, at Location) (units int64, err error)

// elsewhereUnits adds up the units of all sources.
func (s *Service) elsewhereUnits(ctx context.Context, at Location) (units int64, err error) {
	for _, count := range s.elsewhere {
		n, err := count(ctx, at)
		if err != nil {
			return 0, fmt.Errorf("counting the units of %s that are neither in the stock nor sold: %w", at.SKU, err)
		}
		units += n
	}
	return units, nil
}

// flying counts the units in flight in purchases: of this process now, and the most that
// each other process had in the last second, as its row says. With -mixed no process
// writes such rows. The row of a killed process counts until it expires.
func (s *Service) flying(ctx context.Context, sku string) (units int64, err error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	err = s.store.db.WithContext(ctx).Model(&presence{}).Select("COALESCE(SUM(in_flight), 0)").
		Where("sku = ? AND instance <> ? AND ends_at > ?", sku, s.families.instance, now()).Scan(&units).Error
	if err != nil {
		return 0, fmt.Errorf("counting the units of %s in flight: %w", sku, err)
	}
	return units + s.flights.units(sku), nil
}
