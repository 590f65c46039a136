package stock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"oversell/internal/guard"
)

// Isolation runs the section of a deduct on the stock of a sale and claims that no other
// section's write is lost; some implementations fail to keep that claim. The end of ctx
// ends the waiting and nothing else, as with a guard.Guard. Do returns ErrLocation if it
// cannot work with a stock at this location. It is safe for concurrent use.
type Isolation interface {
	Do(ctx context.Context, at Location, e guard.Entry, section Section) (guard.Stats, error)
}

// locator is an Isolation that works only with a stock at some locations. It returns
// ErrLocation for any other.
type locator interface{ checkLocation(at Location) error }

// Section reads the stock, does the work, and writes the stock.
type Section func(ctx context.Context, c Counter) error

// Exclusive isolates by a guard that keeps other callers out, for a stock in Redis or in
// the database. If the guard's lock gives out fencing tokens, the stock checks them,
// unless b.Unfenced is set.
func Exclusive(b Backends, guard guard.Guard) Isolation {
	return exclusive{b, guard}
}

type exclusive struct {
	Backends
	guard guard.Guard
}

func (g exclusive) Do(ctx context.Context, at Location, e guard.Entry, section Section) (guard.Stats, error) {
	if at.Key != "" {
		return exclusiveInRedis(g).Do(ctx, at, e, section)
	}
	return g.guard.Do(ctx, e, func(ctx context.Context) error {
		if token, fenced := guard.Token(ctx); fenced && !g.Unfenced {
			return section(ctx, fencedLedger{ledger{store: store{g.DB}, at: at}, shown{g.Strategy, token}})
		}
		return section(ctx, ledger{store: store{g.DB}, at: at})
	})
}

// ExclusiveInRedis is Exclusive for a stock in Redis alone. A program that uses no other is
// linked without a client of databases.
func ExclusiveInRedis(b Backends, guard guard.Guard) Isolation {
	return exclusiveInRedis{b, guard}
}

type exclusiveInRedis exclusive

func (g exclusiveInRedis) checkLocation(at Location) error { return inRedis(at) }

func (g exclusiveInRedis) Do(ctx context.Context, at Location, e guard.Entry, section Section) (guard.Stats, error) {
	if err := g.checkLocation(at); err != nil {
		return guard.Stats{}, err
	}
	return g.guard.Do(ctx, e, func(ctx context.Context) error {
		if token, fenced := guard.Token(ctx); fenced && !g.Unfenced {
			return section(ctx, fencedCounter{g.Redis, at.Key, shown{g.Strategy, token}})
		}
		return section(ctx, plainCounter{g.Redis, at.Key})
	})
}

// errConflict means that the stock changed between the read and the write.
var errConflict = errors.New("the stock has changed")

// Optimistic isolates without a lock: it watches the stock, and Redis refuses the write
// if the stock has changed since it was read. The loser sleeps and does everything again.
func Optimistic(rdb redis.UniversalClient) Isolation {
	return newRepeated(make(Slots, maxAttempts), inRedis, func(ctx, _ context.Context, _ *place, at Location, section Section) error {
		return rdb.Watch(ctx, func(tx *redis.Tx) error {
			return section(ctx, watchedCounter{tx, at.Key})
		}, at.Key)
	})
}

const (
	// conflictDelay is how long the loser of a conflict sleeps.
	conflictDelay = 50 * time.Millisecond
	// maxAttempts bounds the concurrent attempts in this process. Only one of those
	// that overlap succeeds, so more of them would only waste commands.
	maxAttempts = 4
)

// repeated is an Isolation that does everything again after a conflict.
type repeated struct {
	slots   Slots
	located func(Location) error // returns ErrLocation for a stock that it cannot work with
	once    attempt
}

// attempt waits until wait ends, and runs the section once. It returns errConflict if
// another section was faster. It has a place among the slots, and may leave it while it waits.
type attempt func(ctx, wait context.Context, p *place, at Location, section Section) error

// Slots bounds the concurrent attempts in this process by its capacity. Several
// isolations may share it.
type Slots chan struct{}

// place is one attempt's place among those of Slots.
type place struct {
	of    Slots
	taken bool
}

// take waits for a place, unless the attempt has one. If wait ends first it returns the
// cause.
func (p *place) take(wait context.Context) error {
	if p.taken {
		return nil
	}
	if wait.Err() != nil {
		return context.Cause(wait)
	}
	select {
	case p.of <- struct{}{}:
		p.taken = true
		return nil
	case <-wait.Done():
		return context.Cause(wait)
	}
}

// leave gives the place to another attempt, if this one has it.
func (p *place) leave() {
	if p.taken {
		p.taken = false
		<-p.of
	}
}

func newRepeated(s Slots, checkLocation func(Location) error, once attempt) *repeated {
	return &repeated{s, checkLocation, once}
}

func (r *repeated) checkLocation(at Location) error { return r.located(at) }

// Do repeats the section until its write goes through or the wait ends.
func (r *repeated) Do(ctx context.Context, at Location, _ guard.Entry, section Section) (guard.Stats, error) {
	start := time.Now()
	var s guard.Stats
	if err := r.checkLocation(at); err != nil {
		return s, err
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

// try waits for a slot and makes one attempt. It reports whether it got that far.
func (r *repeated) try(wait context.Context, at Location, section Section) (bool, error) {
	p := &place{of: r.slots}
	if err := p.take(wait); err != nil {
		return false, err
	}
	defer p.leave()
	// The end of wait ends the waiting only: a section that has begun is finished.
	return true, r.once(context.WithoutCancel(wait), wait, p, at, section)
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
