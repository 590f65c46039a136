// Package nativelock is stage 4 without a script, and with renewals: the server compares and
// writes by itself.
//
// The commands are SET NX PX to acquire, SET IFEQ to renew, and DELEX IFEQ to release, on
// Redis 8.4 or later; Valkey has SET IFEQ since 8.1 and DELIFEQ since 9.0. The lock is for
// servers that refuse EVAL. Where scripts are allowed it has no advantage but fewer lines.
//
// Holds:
//   - everything that stage 4 holds: the tests with the same names
//   - work longer than ttl keeps the lock: TestLongWorkKeepsLock
//   - a holder that loses the lock is told: TestLossIsTold, TestUnreachableRedisIsALoss
//   - a renewal never touches another's lock, and ends with its hold:
//     TestRenewalSparesForeignLock, TestUnlockEndsRenewal
//
// Breaks:
//   - IFEQ is no fence: it protects the lock, not what the lock guards. A process paused for
//     longer than ttl writes too late: TestPausedHolderWritesTooLate
//   - a release whose reply was lost answers "not held" when it is asked again:
//     TestLostReleaseLooksNotHeld
//   - a holder that needs the lock again, deeper in its call stack, waits for
//     itself: TestNotReentrant
package nativelock

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// ErrNotHeld is what Unlock returns when there was nothing to release: the
// lock has expired, and may be another's by now.
var ErrNotHeld = errors.New("lock: not held")

// ErrLost is the cause of a lost hold's context. Match it with errors.Is.
var ErrLost = errors.New("lock: lost while held")

// unlockTimeout limits Unlock, which ignores that its caller's context is cancelled.
// go-redis cuts off a network call by it only with Options.ContextTimeoutEnabled.
const unlockTimeout = 5 * time.Second

// Release is the command that deletes a key if it has a value. Which one a server
// has, COMMAND INFO tells; a server with either of them has SET IFEQ, too.
type Release string

// The commands that release.
const (
	DELEX   Release = "DELEX"   // Redis 8.4, Valkey 9.2
	DELIFEQ Release = "DELIFEQ" // Valkey 9.0
)

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	rdb     redis.Cmdable
	key     string
	ttl     time.Duration
	release Release

	token   string   // of the last hold
	renewal *renewal // of the current hold, or of the last one; nil: there was none
}

// New returns a handle on the lock stored at key, for a server that has the command
// release. It does not acquire it. Once acquired, the lock expires ttl after its holder
// stops renewing it. A quarter of ttl must be ample time for Redis to answer.
func New(rdb redis.Cmdable, key string, ttl time.Duration, release Release) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl, release: release}
}

// TryLock acquires the lock if it is free. False means that it is held.
//
// After an error the outcome is unknown: Redis did not answer, and the lock may
// or may not have been acquired. Unlock releases it if it was; nothing renews it.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	token, sent := uuid.NewString(), time.Now()
	ok, err := m.rdb.SetNX(ctx, m.key, token, m.ttl).Result()
	if ok || err != nil {
		m.end() // of a hold that is over, and was not unlocked
		m.token = token
	}
	if ok {
		m.renewal = renew(m.rdb, m.key, token, m.ttl, sent)
	}
	return ok, err
}

// Unlock releases the lock, even if ctx is already cancelled: a caller that
// gives up must not keep the others waiting.
func (m *Mutex) Unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()

	// End the renewal first: it must stop whatever Redis answers.
	defer m.end()()
	n, err := m.deleteOwn(ctx)
	if err != nil {
		return err
	}
	if n == 0 {
		return ErrNotHeld
	}
	return nil
}

// end ends the renewal, if any. The returned function waits for the one in flight.
func (m *Mutex) end() (wait func()) {
	if m.renewal == nil {
		return func() {}
	}
	m.renewal.stop(context.Canceled)
	return m.renewal.inFlight.Wait
}

// deleteOwn deletes the lock if it has this handle's token, and returns how many locks it
// has deleted.
func (m *Mutex) deleteOwn(ctx context.Context) (int64, error) {
	if m.release == DELIFEQ {
		var deleted *redis.Cmd
		_, err := m.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // go-redis has no method for it
			deleted = p.Do(ctx, string(DELIFEQ), m.key, m.token)
			return nil
		})
		if err != nil {
			return 0, err
		}
		return deleted.Int64()
	}
	return m.rdb.DelExArgs(ctx, m.key, redis.DelExArgs{Mode: "IFEQ", MatchValue: m.token}).Result()
}

// Context returns a copy of parent for the work under the lock. It is cancelled when
// the lock is lost, with ErrLost as its cause, or released. The clock of a suspended
// machine does not advance: the next renewal after that detects the loss.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	if m.renewal == nil {
		cancel(ErrNotHeld)
		return ctx
	}
	m.renewal.tell(cancel)
	return ctx
}

// Renewals returns how often the current hold, or else the last one, was renewed.
func (m *Mutex) Renewals() int {
	if m.renewal == nil {
		return 0
	}
	return m.renewal.count()
}
