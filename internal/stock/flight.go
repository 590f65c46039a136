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
