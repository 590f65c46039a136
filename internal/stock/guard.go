package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/locks"
)

// LockStats is what a guard tells of one deduct.
type LockStats = locks.Stats

// Guard runs the section of a deduct on the stock of a sale, so that no other
// section's write is lost, or so it claims. It returns ErrPlace for a stock that is
// kept where the guard cannot work. It is safe for concurrent use.
type Guard interface {
	Do(ctx context.Context, at Place, e locks.Entry, section Section) (LockStats, error)
}

// Section is what a Guard runs: it reads the stock, works, and writes.
type Section func(ctx context.Context, c Counter) error

// Exclusive makes a Guard of one that keeps other callers out, for a stock in
// either place. Where its lock gives out fencing tokens the stock checks them,
// unless k.Unfenced is set.
func Exclusive(k Keepers, guard locks.Guard) Guard {
	return exclusive{k, guard}
}

type exclusive struct {
	Keepers
	guard locks.Guard
}

func (g exclusive) Do(ctx context.Context, at Place, e locks.Entry, section Section) (LockStats, error) {
	return g.guard.Do(ctx, e, func(ctx context.Context) error {
		token, fenced := locks.Token(ctx)
		fenced = fenced && !g.Unfenced
		switch {
		case at.Key == "" && fenced:
			return section(ctx, fencedLedger{ledger{store: store{g.DB}, at: at}, fence{g.Strategy, token}})
		case at.Key == "":
			return section(ctx, ledger{store: store{g.DB}, at: at})
		case fenced:
			return section(ctx, fencedCounter{g.Redis, at.Key, fence{g.Strategy, token}})
		}
		return section(ctx, plainCounter{g.Redis, at.Key})
	})
}

// errConflict means that the stock changed between the read and the write.
var errConflict = errors.New("the stock has changed")

// Optimistic returns the Guard that keeps nobody out: it watches the stock, and
// Redis refuses the write if the stock has changed since it was read. The
// loser sleeps and does everything again.
func Optimistic(rdb redis.UniversalClient) Guard {
	return newRepeated(make(attempts, maxAttempts), inRedis, func(ctx context.Context, at Place, _ locks.Entry, section Section) error {
		return rdb.Watch(context.WithoutCancel(ctx), func(tx *redis.Tx) error {
			return section(context.WithoutCancel(ctx), watchedCounter{tx, at.Key})
		}, at.Key)
	})
}

const (
	// conflictDelay is how long the loser of a conflict sleeps.
	conflictDelay = 50 * time.Millisecond
	// maxAttempts bounds the attempts under way at once in this process. Of
	// all that overlap only one succeeds, so more of them only burn commands.
	maxAttempts = 4
)

// repeated is a Guard that does everything again after a conflict.
type repeated struct {
	attempts attempts
	place    func(Place) error
	once     func(ctx context.Context, at Place, e locks.Entry, section Section) error
}

// attempts has a value for each attempt that is under way in this process. Its
// capacity bounds them. Several guards may share it.
type attempts chan struct{}

// newRepeated makes a Guard of once, which runs the section once, or returns
// errConflict.
func newRepeated(a attempts, place func(Place) error, once func(context.Context, Place, locks.Entry, Section) error) *repeated {
	return &repeated{a, place, once}
}

// Do repeats the section until its write goes through or the wait ends.
func (r *repeated) Do(ctx context.Context, at Place, e locks.Entry, section Section) (LockStats, error) {
	start := time.Now()
	var s LockStats
	if err := r.place(at); err != nil {
		return s, err
	}
	for {
		var began time.Time
		tried, err := r.attempt(ctx, at, e, func(ctx context.Context, c Counter) error {
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
		if err := pause(e.Wait, conflictDelay); err != nil {
			s.Waited = time.Since(start)
			return s, err
		}
	}
}

// attempt waits for its turn and tries once, and reports whether it did.
func (r *repeated) attempt(ctx context.Context, at Place, e locks.Entry, section Section) (bool, error) {
	if e.Wait.Err() != nil {
		return false, context.Cause(e.Wait)
	}
	select {
	case r.attempts <- struct{}{}:
		defer func() { <-r.attempts }()
	case <-e.Wait.Done():
		return false, context.Cause(e.Wait)
	}
	return true, r.once(ctx, at, e, section)
}

// pause waits for d or until wait ends, and returns the cause in that case.
func pause(wait context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-wait.Done():
		return context.Cause(wait)
	}
}

// watchedCounter reads with GET after WATCH and writes with MULTI, SET, EXEC.
type watchedCounter struct {
	tx  *redis.Tx
	key string
}

func (c watchedCounter) Get(ctx context.Context) (int64, error) {
	return getStock(ctx, c.tx, c.key)
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
