// Package lock is stage 5: a reentrant lock, which its owner may acquire again.
//
// New: the key is a hash, owner -> number of holds. The owner is in the context
// (owner.go) and not in the Mutex, so a function deeper in the call stack
// re-enters with a Mutex of its own. Redisson (Java) stores its RLock this way.
//
// Holds:
//   - one owner at a time, for at most ttl
//   - a cancelled caller still releases the lock
//   - "held by another" and "Redis failed" are different results
//   - a dead holder's lock is free after ttl
//   - a late holder leaves the next holder's lock alone
//   - a lock whose reply was lost can be released
//   - nothing can come between compare and delete
//   - the owner can re-enter, and only its last Unlock frees the lock
//   - the ttl of a re-entry lengthens the lease, and never shortens it:
//     TestInnerTTLShortensNothing
//
// Breaks:
//   - an owner that retries after a lost reply, without Unlock in between, is counted
//     twice, and the lock stays held until ttl has passed
//   - Unlock after a re-entry that Redis never saw releases the outer hold
//   - work that takes longer than ttl lets a second holder in:
//     TestExpiresUnderItsHolder
//
// TestPromises checks each line above that names no test.
package lock

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is returned by Unlock if there was nothing to release: the lock has
// expired, and another holder may have it now.
var ErrNotHeld = errors.New("lock: not held")

// unlockTimeout limits Unlock, which runs even if its caller's context is cancelled. It
// ends a network call of go-redis only if Options.ContextTimeoutEnabled is set.
const unlockTimeout = 5 * time.Second

var (
	//go:embed lock.lua
	lockSource string
	lockScript = redis.NewScript(lockSource)

	//go:embed unlock.lua
	unlockSource string
	unlockScript = redis.NewScript(unlockSource)
)

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

// TryLock acquires the lock for the owner in ctx, if the lock is free or that owner
// already has it. False means that another owner holds it.
//
// After an error the outcome is unknown: Redis did not answer, and the lock may
// or may not have been acquired. Unlock releases it if it was; if it was not,
// and this was a re-entry, Unlock releases the outer hold.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return false, err
	}
	n, err := lockScript.Run(ctx, m.rdb, []string{m.key}, owner, m.ttl.Milliseconds()).Int()
	return n > 0, err
}

// Unlock releases the lock, even if ctx is already cancelled: a caller that
// gives up must not keep the others waiting. The lock is free after as many
// calls of Unlock as there were calls of TryLock that returned true.
func (m *Mutex) Unlock(ctx context.Context) error {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()

	n, err := unlockScript.Run(ctx, m.rdb, []string{m.key}, owner).Int()
	if err != nil {
		return err
	}
	if n < 0 {
		return ErrNotHeld
	}
	return nil
}
