package stock

import (
	"context"
	"time"

	"gorm.io/gorm"

	"oversell/internal/guard"
	"oversell/internal/guard/keymutex"
)

// oneByOne calls another Guard for one buyer of each sale at a time, in this process.
type oneByOne struct {
	mutex keymutex.Mutex
	inner Guard
}

func (o *oneByOne) Do(ctx context.Context, at Location, e guard.Entry, section Section) (guard.Stats, error) {
	start := time.Now()
	hold, err := o.mutex.Lock(ctx, at.SKU+" "+at.SaleID)
	waited := time.Since(start)
	if err != nil {
		return guard.Stats{Waited: waited}, err
	}
	defer hold.Unlock()
	s, err := o.inner.Do(ctx, at, e, section)
	s.Waited += waited
	return s, err
}

// HalfOfPool returns slots for half of the connections in the pool. Holders and waiters
// use these; the other half is for looking at items and writing orders.
func HalfOfPool(db *gorm.DB) Slots {
	const unlimited = 16
	n := unlimited
	if pool, err := db.DB(); err == nil && pool.Stats().MaxOpenConnections > 0 {
		n = max(1, pool.Stats().MaxOpenConnections/2)
	}
	return make(Slots, n)
}
