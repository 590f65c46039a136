// Package lock is stage 2: the same lock with an expiry, set by the command that acquires it.
//
// New: SET NX PX. The key expires by itself after ttl. It has to be one command: a
// holder that dies between SETNX and a separate EXPIRE leaves a lock that never
// expires, as in stage 1.
//
// Holds:
//   - one holder at a time, for at most ttl
//   - a cancelled caller still releases the lock
//   - "held by another" and "Redis failed" are different results
//   - a dead holder's lock is free after ttl
//
// Breaks:
//   - a late holder deletes the next holder's lock, and that holder in turn deletes
//     the lock of the one after it: TestForeignDelete
//   - Unlock deletes the lock even if another holder has it: repeated after a lost
//     reply, it deletes the next holder's lock
//   - a TryLock whose reply is lost locks everybody out for ttl: its caller cannot
//     tell whether the lock is its own
//   - work that takes longer than ttl lets a second holder in
//
// TestPromises checks each line above that names no test.
package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is returned by Unlock if there was nothing to release.
var ErrNotHeld = errors.New("lock: not held")

// unlockTimeout limits Unlock, which runs even if its caller's context is cancelled. It
// ends a network call of go-redis only if Options.ContextTimeoutEnabled is set.
const unlockTimeout = 5 * time.Second

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	rdb redis.Cmdable
	key string
	ttl time.Duration
}

// New returns a handle on the lock stored at key. It does not acquire the lock. Once
// acquired, the lock expires after ttl, which must be at least a millisecond.
func New(rdb redis.Cmdable, key string, ttl time.Duration) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl}
}

// TryLock acquires the lock if it is free. False means that it is held.
//
// After an error the outcome is unknown: Redis did not answer, and the lock may
// or may not have been acquired.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	return m.rdb.SetNX(ctx, m.key, "held", m.ttl).Result()
}

// Unlock releases the lock, even if ctx is already cancelled: a caller that
// gives up must not keep the others waiting.
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
