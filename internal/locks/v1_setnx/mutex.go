// Package lock is stage 1: a lock in Redis, taken by SET NX and given back by DEL.
//
// New: the lock is a key. SET NX creates it only if it is not there, in one
// step on the server, so of any number of processes only one succeeds.
//
// Holds:
//   - one holder at a time: TestExclusive
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel
//   - "held by another" and "Redis failed" are told apart: TestErrorIsNotFalse
//
// Breaks:
//   - a holder that dies before Unlock locks everybody out, for ever:
//     TestOrphanStaysForEver
//   - so does a TryLock whose reply was lost, as its caller cannot tell its
//     own lock from another's: TestLostReplyLocksOut
//   - Unlock removes whatever lock is there: repeated after a lost reply, that
//     of the next holder: TestRepeatedUnlock
package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is what Unlock returns when there was nothing to give back.
var ErrNotHeld = errors.New("lock: not held")

// unlockTimeout limits Unlock, which does not listen to its caller's context.
// On the wire go-redis keeps it only with Options.ContextTimeoutEnabled.
const unlockTimeout = 5 * time.Second

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	rdb redis.Cmdable
	key string
}

// New returns a handle on the lock that lives at key. It does not take it.
func New(rdb redis.Cmdable, key string) *Mutex {
	return &Mutex{rdb: rdb, key: key}
}

// TryLock takes the lock if it is free. False means that it is held.
//
// After an error nothing is known: Redis did not answer, and the lock may or
// may not have been taken.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	return m.rdb.SetNX(ctx, m.key, "held", 0).Result()
}

// Unlock gives the lock back, even when ctx is cancelled already: a caller
// that gives up must not keep the others waiting.
func (m *Mutex) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()

	n, err := m.rdb.Del(ctx, m.key).Result()
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrNotHeld
	}
	return nil
}
