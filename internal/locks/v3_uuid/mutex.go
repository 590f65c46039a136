// Package lock is stage 3: the lock's value says who holds it, and Unlock checks it.
//
// New: the value is a token, unique to this hold. Unlock reads it and deletes
// the key only if the token is its own. A process or thread id would not do:
// two machines can have the same one.
//
// Holds:
//   - one holder at a time, for at most ttl
//   - a cancelled caller still releases the lock
//   - "held by another" and "Redis failed" are different results
//   - a dead holder's lock is free after ttl
//   - a late holder leaves the next holder's lock alone
//   - a lock whose reply was lost can be released
//
// Breaks:
//   - GET and DEL are two commands, and between them the lock can change
//     hands: TestCheckThenDelete
//   - work that takes longer than ttl lets a second holder in
//
// TestPromises checks each line above that names no test.
package lock

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is returned by Unlock if there was nothing to release: the lock has
// expired, and another holder may have it now.
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

	token string // token of the last hold
}

// New returns a handle on the lock stored at key. It does not acquire the lock. Once
// acquired, the lock expires after ttl, which must be at least a millisecond.
func New(rdb redis.Cmdable, key string, ttl time.Duration) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl}
}

// TryLock acquires the lock if it is free. False means that it is held.
//
// After an error the outcome is unknown: Redis did not answer, and the lock may
// or may not have been acquired. Unlock releases it if it was.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	token := uuid.NewString()
	ok, err := m.rdb.SetNX(ctx, m.key, token, m.ttl).Result()
	if ok || err != nil {
		m.token = token
	}
	return ok, err
}

// Unlock releases the lock, even if ctx is already cancelled: a caller that
// gives up must not keep the others waiting.
func (m *Mutex) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()

	token, err := m.rdb.Get(ctx, m.key).Result()
	if errors.Is(err, redis.Nil) || err == nil && token != m.token {
		return ErrNotHeld
	}
	if err != nil {
		return err
	}
	n, err := m.rdb.Del(ctx, m.key).Result()
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrNotHeld
	}
	return nil
}
