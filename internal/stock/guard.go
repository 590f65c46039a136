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

// Guard runs the section of a deduct on the counter at a key in Redis, so that
// no other section's write is lost, or so it claims. It is safe for concurrent use.
type Guard interface {
	Do(ctx context.Context, key string, e locks.Entry, section func(context.Context, Counter) error) (LockStats, error)
}

// Exclusive makes a Guard of one that keeps other callers out. Where its lock
// gives out fencing tokens the stock checks them, unless unfenced is set.
func Exclusive(rdb redis.UniversalClient, guard locks.Guard, unfenced bool) Guard {
	return exclusive{rdb, guard, unfenced}
}

type exclusive struct {
	rdb      redis.UniversalClient
	guard    locks.Guard
	unfenced bool
}

func (g exclusive) Do(ctx context.Context, key string, e locks.Entry, section func(context.Context, Counter) error) (LockStats, error) {
	return g.guard.Do(ctx, e, func(ctx context.Context) error {
		if token, ok := locks.Token(ctx); ok && !g.unfenced {
			return section(ctx, fencedCounter{g.rdb, key, token})
		}
		return section(ctx, plainCounter{g.rdb, key})
	})
}

// errConflict means that the stock changed between the read and the write.
var errConflict = errors.New("the stock has changed")

// Optimistic returns the Guard that keeps nobody out: it watches the stock, and
// Redis refuses the write if the stock has changed since it was read. The
// loser sleeps and does everything again.
func Optimistic(rdb redis.UniversalClient) Guard {
	return &optimistic{rdb, make(chan struct{}, maxAttempts)}
}

const (
	// conflictDelay is how long the loser of a conflict sleeps.
	conflictDelay = 50 * time.Millisecond
	// maxAttempts bounds the attempts under way at once in this process. Of
	// all that overlap only one succeeds, so more of them only burn commands.
	maxAttempts = 4
)

type optimistic struct {
	rdb      redis.UniversalClient
	attempts chan struct{}
}

// Do repeats the section until its write goes through or the wait ends.
func (o *optimistic) Do(ctx context.Context, key string, e locks.Entry, section func(context.Context, Counter) error) (LockStats, error) {
	start := time.Now()
	var s LockStats
	for {
		began, err := o.attempt(ctx, key, e.Wait, section)
		if !began.IsZero() {
			s.Attempts++
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

// attempt waits for a place and runs the section once. It returns when the
// section began, if it did.
func (o *optimistic) attempt(ctx context.Context, key string, wait context.Context, section func(context.Context, Counter) error) (time.Time, error) {
	if wait.Err() != nil {
		return time.Time{}, context.Cause(wait)
	}
	select {
	case o.attempts <- struct{}{}:
		defer func() { <-o.attempts }()
	case <-wait.Done():
		return time.Time{}, context.Cause(wait)
	}
	began := time.Now()
	ctx = context.WithoutCancel(ctx)
	err := o.rdb.Watch(ctx, func(tx *redis.Tx) error {
		return section(ctx, watchedCounter{tx, key})
	}, key)
	return began, err
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
		return p.Set(ctx, c.key, left, 0).Err()
	})
	if errors.Is(err, redis.TxFailedErr) {
		return errConflict
	}
	if err != nil {
		return fmt.Errorf("writing the watched stock: %w", err)
	}
	return nil
}
