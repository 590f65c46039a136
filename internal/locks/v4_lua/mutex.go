// Package lock is stage 4: Unlock compares and deletes in one step, a Lua script.
//
// New: unlock.lua. Redis runs a script as it runs a command, with nothing in
// between, so the hole of stage 3 is closed. This is the single-server lock
// of the Redis documentation (redis.io, "Distributed Locks with Redis").
//
// Holds:
//   - one holder at a time, for ttl at most: TestExclusive
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel
//   - "held by another" and "Redis failed" are told apart: TestErrorIsNotFalse
//   - a dead holder's lock is free after ttl: TestDeadHolderExpires
//   - a holder that comes late leaves the next one's lock alone:
//     TestLateUnlockSparesForeignLock
//   - a lock whose reply was lost can be given back: TestUnlockAfterLostReply
//   - there is no moment between compare and delete: TestNoHoleInUnlock
//
// Breaks:
//   - a holder that needs the lock again, further down its own call, waits
//     for itself: TestNotReentrant
//   - work that takes longer than ttl lets a second holder in:
//     TestExpiresUnderItsHolder
package lock

import (
	"context"
	_ "embed"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is what Unlock returns when there was nothing to give back: the
// lock has expired, and may be another's by now.
var ErrNotHeld = errors.New("lock: not held")

// unlockTimeout limits Unlock, which does not listen to its caller's context.
// On the wire go-redis keeps it only with Options.ContextTimeoutEnabled.
const unlockTimeout = 5 * time.Second

var (
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

	token string // the value of the last hold
}

// New returns a handle on the lock that lives at key. It does not take it.
// Once taken, the lock expires after ttl, which must be at least a millisecond.
func New(rdb redis.Cmdable, key string, ttl time.Duration) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl}
}

// TryLock takes the lock if it is free. False means that it is held.
//
// After an error nothing is known: Redis did not answer, and the lock may or
// may not have been taken. Unlock gives it back if it was.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	token := uuid.NewString()
	ok, err := m.rdb.SetNX(ctx, m.key, token, m.ttl).Result()
	if ok || err != nil {
		m.token = token
	}
	return ok, err
}

// Unlock gives the lock back, even when ctx is cancelled already: a caller
// that gives up must not keep the others waiting.
func (m *Mutex) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()

	n, err := unlockScript.Run(ctx, m.rdb, []string{m.key}, m.token).Int()
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrNotHeld
	}
	return nil
}
