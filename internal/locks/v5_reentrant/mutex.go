// Package lock is stage 5: the lock counts, so that its owner may take it again.
//
// New: the key is a hash, owner -> holds. The owner comes with the context
// (owner.go), from the work and not from the Mutex, so code further down
// re-enters with a Mutex of its own. Java's Redisson keeps its RLock this way.
//
// Holds:
//   - one owner at a time, for ttl at most: TestExclusive
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel
//   - "held by another" and "Redis failed" are told apart: TestErrorIsNotFalse
//   - a dead holder's lock is free after ttl: TestDeadHolderExpires
//   - a holder that comes late leaves the next one's lock alone:
//     TestLateUnlockSparesForeignLock
//   - a lock whose reply was lost can be given back: TestUnlockAfterLostReply
//   - there is no moment between compare and delete: TestNoHoleInUnlock
//   - the owner re-enters, and only its last Unlock frees the lock:
//     TestReentrant, TestReentrantAcrossMutexes
//
// Breaks:
//   - whoever tries again after a lost reply, without Unlock in between, is
//     counted twice, and the lock stays until ttl: TestLostReplyCountsTwice
//   - Unlock after a re-entry that Redis never saw gives back the outer hold:
//     TestFailedReentryFreesOuter
//   - work that takes longer than ttl lets a second holder in:
//     TestExpiresUnderItsHolder
package lock

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is what Unlock returns when there was nothing to give back: the
// lock has expired, and may be another's by now.
var ErrNotHeld = errors.New("lock: not held")

// unlockTimeout limits Unlock, which does not listen to its caller's context.
// On the wire go-redis keeps it only with Options.ContextTimeoutEnabled.
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

// New returns a handle on the lock that lives at key. It does not take it.
// Once taken, the lock expires after ttl, which must be at least a millisecond.
func New(rdb redis.Cmdable, key string, ttl time.Duration) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl}
}

// TryLock takes the lock for the owner in ctx, if it is free or that owner's
// already. False means that it is held.
//
// After an error nothing is known: Redis did not answer, and the lock may or
// may not have been taken. Unlock gives it back if it was; if it was not, and
// this was a re-entry, Unlock gives back the outer hold.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return false, err
	}
	n, err := lockScript.Run(ctx, m.rdb, []string{m.key}, owner, m.ttl.Milliseconds()).Int()
	return n > 0, err
}

// Unlock gives the lock back, even when ctx is cancelled already: a caller
// that gives up must not keep the others waiting. The lock is free once there
// were as many calls of Unlock as of TryLock that returned true.
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
