// Package lock is stage 2: the same lock with an expiry, set by the command that takes it.
//
// New: SET NX PX. The key goes away by itself after ttl. It has to be one
// command: a holder that dies between SETNX and a separate EXPIRE leaves the
// lock of stage 1 behind.
//
// Holds:
//   - one holder at a time, for ttl at most: TestExclusive
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel
//   - "held by another" and "Redis failed" are told apart: TestErrorIsNotFalse
//   - a dead holder's lock is free after ttl: TestDeadHolderExpires
//
// Breaks:
//   - a holder that comes late removes the lock of the next one, who then
//     removes that of the one after: TestForeignDelete
//   - Unlock removes whatever lock is there: repeated after a lost reply, that
//     of the next holder: TestRepeatedUnlock
//   - a TryLock whose reply was lost locks everybody out until ttl, as its
//     caller cannot tell its own lock from another's: TestLostReplyLocksOut
//   - work that takes longer than ttl lets a second holder in:
//     TestExpiresUnderItsHolder
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
	ttl time.Duration
}

// New returns a handle on the lock that lives at key. It does not take it.
// Once taken, the lock expires after ttl, which must be at least a millisecond.
func New(rdb redis.Cmdable, key string, ttl time.Duration) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl}
}

// TryLock takes the lock if it is free. False means that it is held.
//
// After an error nothing is known: Redis did not answer, and the lock may or
// may not have been taken.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	return m.rdb.SetNX(ctx, m.key, "held", m.ttl).Result()
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
