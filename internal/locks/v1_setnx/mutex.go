// Package lock is stage 1: a lock in Redis, acquired by SET NX and released by DEL.
//
// New: the lock is a key. SET NX creates it only if it does not exist, in one
// step on the server, so only one of any number of processes succeeds.
//
// Holds:
//   - one holder at a time
//   - a cancelled caller still releases the lock
//   - "held by another" and "Redis failed" are different results
//
// Breaks:
//   - a holder that dies before Unlock locks everybody out forever:
//     TestOrphanStaysForEver
//   - so does a TryLock whose reply is lost: its caller cannot tell whether the lock
//     is its own
//   - Unlock deletes the lock even if another holder has it: repeated after a lost
//     reply, it deletes the next holder's lock
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
}

// New returns a handle on the lock stored at key. It does not acquire the lock.
func New(rdb redis.Cmdable, key string) *Mutex {
	return &Mutex{rdb: rdb, key: key}
}

// TryLock acquires the lock if it is free. False means that it is held.
//
// After an error the outcome is unknown: Redis did not answer, and the lock may
// or may not have been acquired.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	return m.rdb.SetNX(ctx, m.key, "held", 0).Result()
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
