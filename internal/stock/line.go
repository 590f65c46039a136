package stock

import (
	"context"
	"time"

	"gorm.io/gorm"

	"oversell/internal/locks"
)

// lined lets the buyers of one sale come to a guard one by one, as far as they are
// of this process.
type lined struct {
	line  locks.Local
	guard Guard
}

func inLine(guard Guard) Guard { return &lined{guard: guard} }

func (l *lined) Do(ctx context.Context, at Place, e locks.Entry, section Section) (s LockStats, err error) {
	start := time.Now()
	turn := locks.Entry{Key: at.SKU + " " + at.SaleID, Wait: e.Wait}
	waiting := true
	_, err = l.line.Do(ctx, turn, func(ctx context.Context) (err error) {
		waiting = false
		waited := time.Since(start)
		s, err = l.guard.Do(ctx, at, e, section)
		s.Waited += waited
		return err
	})
	if waiting {
		s.Waited = time.Since(start)
	}
	return s, err
}

// pinned is how many connections may be in the hands of holders and waiters at
// once: half of those there are, so that the others can look at items, and write
// their orders.
func pinned(db *gorm.DB) attempts {
	const unlimited = 16
	n := unlimited
	if pool, err := db.DB(); err == nil && pool.Stats().MaxOpenConnections > 0 {
		n = max(1, pool.Stats().MaxOpenConnections/2)
	}
	return make(attempts, n)
}
