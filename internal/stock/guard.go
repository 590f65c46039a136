package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/semaphore"

	"oversell/internal/guard"
)

// Guard runs the section of a purchase on the stock of a sale, and promises that no other section's
// write is lost; some implementations break that promise. When ctx ends, only waiting stops, as
// with a guard.Guard. It is safe for concurrent use.
//
// Exclusive turns a lock into a Guard that works with a stock in Redis or in the database.
// RowLocked, NameLocked and Units use locks of the database; Optimistic, Conditional and Versioned
// need none.
type Guard interface {
	Do(ctx context.Context, at Location, e guard.Entry, section Section) (guard.Stats, error)
}

// Section reads the stock, does the work, and writes the stock.
type Section func(ctx context.Context, c Counter) error

// Counter reads and writes an item's stock in a section.
type Counter interface {
	Get(ctx context.Context) (int64, error)
	// Set writes the stock. With optimistic locking it returns errConflict if the
	// stock has changed since Get.
	Set(ctx context.Context, left int64) error
}

// Location says where the stock of one sale is kept.
type Location struct {
	Key         string // the key of the stock in Redis; "": the stock is in the database
	SKU, SaleID string
	Generation  string // the id of the stock's generation
}

func (l Location) inRedis() bool { return l.Key != "" }

// errConflict means that the stock changed between the read and the write.
var errConflict = errors.New("the stock has changed")

// Optimistic returns a Guard that needs no lock: it watches the stock, and Redis refuses the write
// if the stock has changed since it was read. The loser sleeps and repeats the whole section.
func Optimistic(rdb redis.UniversalClient) Guard {
	return &repeated{slots: semaphore.NewWeighted(maxAttempts),
		once: func(ctx, _ context.Context, at Location, section Section) error {
			return rdb.Watch(ctx, func(tx *redis.Tx) error {
				return section(ctx, watchedCounter{plainCounter{tx, at.Key}, tx})
			}, at.Key)
		}}
}

const (
	// conflictDelay is how long the loser of a conflict sleeps.
	conflictDelay = 50 * time.Millisecond
	// maxAttempts limits the concurrent attempts in this process. Only one of several overlapping
	// attempts succeeds, so more of them would only waste commands.
	maxAttempts = 4
)

// repeated is a Guard that runs the whole section again after a conflict.
type repeated struct {
	slots    *semaphore.Weighted // limits the concurrent attempts in this process; guards may share it
	unusable error               // returned by every Do if the database lacks what the guard needs
	inTurn   *guard.KeyedMutex   // lets this process's buyers of a sale try one at a time; nil: all may try at once
	// once runs the section once, waiting for a lock until wait ends if it needs one. It returns
	// errConflict if another section was faster.
	once func(ctx, wait context.Context, at Location, section Section) error
}

// Do repeats the section until its write goes through or the wait ends.
func (r *repeated) Do(ctx context.Context, at Location, _ guard.Entry, section Section) (guard.Stats, error) {
	start := time.Now()
	var s guard.Stats
	if r.unusable != nil {
		return s, r.unusable
	}
	if r.inTurn != nil {
		hold, err := r.inTurn.Lock(ctx, at.SKU+" "+at.SaleID)
		if err != nil {
			s.Waited = time.Since(start)
			return s, err
		}
		defer hold.Unlock()
	}
	for {
		var began time.Time
		tried, err := r.try(ctx, at, func(ctx context.Context, c Counter) error {
			began = time.Now()
			return section(ctx, c)
		})
		if tried {
			s.Attempts++
		}
		if s.Held = 0; !began.IsZero() {
			s.Held = time.Since(began)
		}
		if !errors.Is(err, errConflict) {
			s.Waited = time.Since(start) - s.Held
			return s, err
		}
		if err := guard.Sleep(ctx, conflictDelay); err != nil {
			s.Waited = time.Since(start)
			return s, err
		}
	}
}

// try waits for a slot and makes one attempt. It reports whether it got a slot.
func (r *repeated) try(wait context.Context, at Location, section Section) (bool, error) {
	if r.slots.Acquire(wait, 1) != nil {
		return false, context.Cause(wait)
	}
	defer r.slots.Release(1)
	// When wait ends, only waiting stops: a section that has begun is finished.
	return true, r.once(context.WithoutCancel(wait), wait, at, section)
}

// watchedCounter reads with GET after WATCH and writes with MULTI, SET, EXEC.
type watchedCounter struct {
	plainCounter
	tx *redis.Tx
}

func (c watchedCounter) Set(ctx context.Context, left int64) error {
	_, err := c.tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
		return p.Set(ctx, c.key, left, redis.KeepTTL).Err()
	})
	if errors.Is(err, redis.TxFailedErr) {
		return errConflict
	}
	if err != nil {
		return fmt.Errorf("writing the watched stock: %w", err)
	}
	return nil
}
