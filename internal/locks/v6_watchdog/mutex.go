// Package lock is stage 6: a watchdog renews the lock for as long as the work takes.
//
// New: a timer renews the ttl from the outermost TryLock to the last Unlock
// (renewal.go). So ttl limits no work: it is when a dead holder is given up.
// Context tells of a lost lock. The idea, and the third of ttl, are Redisson's.
//
// Holds:
//   - one owner at a time, with no limit: TestExclusive, TestLongWorkKeepsLock
//   - a cancelled caller still gives the lock back: TestUnlockAfterCancel
//   - "held by another" and "Redis failed" are told apart: TestErrorIsNotFalse
//   - a dead holder's lock is free after ttl: TestDeadHolderExpires
//   - a holder that comes late leaves the next one's lock alone:
//     TestLateUnlockSparesForeignLock
//   - a lock whose reply was lost can be given back: TestUnlockAfterLostReply
//   - there is no moment between compare and delete: TestNoHoleInUnlock
//   - the owner re-enters, and only its last Unlock frees the lock:
//     TestReentrant, TestReentrantAcrossMutexes
//   - each outermost hold has one renewer; the last Unlock, even failed, ends
//     it: TestOneRenewer, TestUnlockEndsRenewal, TestFailedUnlockEndsRenewal
//   - a passing error of Redis does no harm: TestRenewalOutlivesErrors
//   - a lost lock is told, at the latest as its ttl runs out: TestLossIsTold
//
// Breaks:
//   - whoever tries again after a lost reply, without Unlock in between, is
//     counted twice, and the lock stays until ttl: TestLostReplyCountsTwice
//   - Unlock after a re-entry that Redis never saw gives back the outer hold:
//     TestFailedReentryFreesOuter
//   - what nobody unlocks, its process renews for ever: TestForgottenUnlock
//   - a process that is stopped for longer than ttl learns of its loss only
//     as it goes on, maybe one write too late: TestPausedHolderWritesTooLate
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

// ErrLost is the cause, to be matched by errors.Is, of a lost hold's context.
var ErrLost = errors.New("lock: lost while held")

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

	renewal *renewal // of the hold, or of the last one
}

// New returns a handle on the lock that lives at key. It does not take it.
// Once taken, the lock expires ttl after its holder stops renewing it. A quarter
// of ttl must be ample time for Redis to answer.
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
	sent := time.Now()
	n, err := lockScript.Run(ctx, m.rdb, []string{m.key}, owner, m.ttl.Milliseconds()).Int()
	if n > 0 {
		m.renewal = enter(hold{m.rdb, m.key, owner}, m.ttl, sent, n)
	}
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

	// End the renewal first: whatever Redis answers, it must not go on.
	if r := leave(hold{m.rdb, m.key, owner}); r != nil {
		defer r.inFlight.Wait()
	}
	n, err := unlockScript.Run(ctx, m.rdb, []string{m.key}, owner).Int()
	if err != nil {
		return err
	}
	if n < 0 {
		return ErrNotHeld
	}
	return nil
}

// Context returns a copy of parent for the work under the lock. It ends when the
// lock is lost, with ErrLost as its cause, or given back. While the machine is
// suspended its clock stands still: then the next renewal tells of the loss.
func (m *Mutex) Context(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	mu.Lock()
	defer mu.Unlock()
	switch r := m.renewal; {
	case r == nil:
		cancel(ErrNotHeld)
	case r.over():
		cancel(r.cause)
	default:
		r.onEnd = append(r.onEnd, cancel)
	}
	return ctx
}

// Renewals returns how often the hold has been renewed, or the last one was.
func (m *Mutex) Renewals() int {
	mu.Lock()
	defer mu.Unlock()
	if m.renewal == nil {
		return 0
	}
	return m.renewal.renewed
}
