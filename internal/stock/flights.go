package stock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"oversell/internal/guard"
)

const (
	// publishEvery is the interval at which a process publishes how many units it has in flight.
	publishEvery = 250 * time.Millisecond
	// flightTime is how long the units of a crashed process count as in flight.
	flightTime = 2 * time.Second
)

// flight is a row with the units of an item that a process has in flight: it may have taken them
// from a stock in Redis, and their order is neither written nor abandoned. Without these rows an
// audit in another process would count the units as stranded.
type flight struct {
	SKU      string    `gorm:"primaryKey;size:64"`
	Instance string    `gorm:"primaryKey;size:36"`
	Units    int64     `gorm:"not null"` // the maximum since the row was last written
	EndsAt   time.Time `gorm:"not null"`
}

func (flight) TableName() string { return "oversell_flights" }

// flights counts the units that the purchases of this process have in flight, and publishes them.
// It is safe for concurrent use.
type flights struct {
	store     store
	instance  string
	log       *slog.Logger
	publisher *guard.Background

	mu    sync.Mutex
	units map[string]*inFlight // by SKU
}

type inFlight struct {
	now  int64
	peak int64 // the maximum since the publisher last looked
	seen bool  // the publisher has seen this entry; most purchases are over before it looks
}

// add adds units that are about to be taken. A negative number removes units whose order was
// written, that were put back, or that were not taken.
func (f *flights) add(sku string, units int64) {
	f.mu.Lock()
	n, known := f.units[sku]
	if !known {
		n = new(inFlight)
		f.units[sku] = n
	}
	n.now += units
	n.peak = max(n.peak, n.now)
	f.mu.Unlock()
	if !known {
		f.publisher.Wake()
	}
}

// publish is the background step that writes the rows of this process. It reports whether anything
// is still in flight.
func (f *flights) publish(ctx context.Context) (more bool) {
	_ = guard.Sleep(ctx, publishEvery)
	rows, gone := f.look(ctx.Err() != nil)
	ctx, cancel := limited(ctx)
	defer cancel()
	db := f.store.db.WithContext(ctx)
	var wrote, removed error
	if len(rows) > 0 {
		wrote = db.Clauses(clause.OnConflict{UpdateAll: true}).Create(rows).Error
	}
	if len(gone) > 0 {
		removed = db.Where("instance = ? AND sku IN ?", f.instance, gone).Delete(&flight{}).Error
	}
	if err := errors.Join(wrote, removed); err != nil {
		f.log.Warn("the units in flight cannot be published, and may be taken for stranded", "error", err)
	}
	return len(rows) > 0
}

// look returns the rows to write, and the items whose rows are to be deleted: items that no longer
// have units in flight, or all items if the process is ending.
func (f *flights) look(ending bool) (rows []flight, gone []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for sku, n := range f.units {
		switch {
		case n.seen && (n.peak == 0 || ending):
			gone = append(gone, sku)
			fallthrough
		case n.peak == 0, n.now == 0 && !n.seen:
			delete(f.units, sku)
		default:
			rows = append(rows, flight{sku, f.instance, n.peak, now().Add(flightTime)})
			n.peak, n.seen = n.now, true
		}
	}
	return rows, gone
}

// of counts the units of an item that are in flight: those of this process now, and those that
// other processes have published. The row of a killed process counts until it expires.
func (f *flights) of(ctx context.Context, sku string) (units int64, err error) {
	err = f.store.query(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Model(&flight{}).Select("COALESCE(SUM(units), 0)").
			Where("sku = ? AND instance <> ? AND ends_at > ?", sku, f.instance, now()).Scan(&units)
	}, "counting the units of %s in flight", sku)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.units[sku]; n != nil {
		units += n.now
	}
	return units, err
}
