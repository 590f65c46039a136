// Package lock is stage 7: an owner that waits stands in a queue, and is handed the lock.
//
// New: Lock waits (queue.go). The owner stands in a queue in Redis and sleeps until a
// list of its own has a message (BLPOP). The last Unlock hands the lock to the first
// in the queue and wakes that one only. That each waiter watches a place of its own is
// the idea of queue locks (Mellor-Crummey and Scott, ACM TOCS 9(1), 1991). A waiter
// blocks one connection of the client's pool: of each process one goroutine should
// wait for a lock at a time, with the others in memory behind it.
//
// Holds:
//   - all that stage 6 holds: TestExclusive, TestLongWorkKeepsLock, TestErrorIsNotFalse,
//     TestUnlockAfterCancel, TestDeadHolderExpires, TestLateUnlockSparesForeignLock,
//     TestUnlockAfterLostReply, TestNoHoleInUnlock, TestReentrant, TestOneRenewer,
//     TestUnlockEndsRenewal, TestRenewalOutlivesErrors, TestLossIsTold
//   - first come, first served: TestFIFO, TestNewcomerDoesNotOvertake
//   - waiters do not ask again and again: TestWaitingTakesFewCommands
//   - a dead waiter is skipped: TestDeadWaiterIsSkipped, TestDeadHeirLosesTheLock
//   - a waiter that gives up leaves nothing: TestCancelLeavesNothing
//   - a lost wake-up costs a third of ttl: TestLostWakeUp
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
	rdb redis.UniversalClient
	key string
	ttl time.Duration

	renewal *renewal // of the hold, or of the last one
}

// New returns a handle on the lock that lives at key. It does not take it.
// Once taken, the lock expires ttl after its holder stops renewing it. A quarter
// of ttl must be ample time for Redis to answer. The queue lives beside the lock, at
// names that begin with key: on a cluster, key needs a hash tag.
func New(rdb redis.UniversalClient, key string, ttl time.Duration) *Mutex {
	return &Mutex{rdb: rdb, key: key, ttl: ttl}
}

// TryLock takes the lock for the owner in ctx, if it is free or that owner's
// already. False means that it is held, or that others wait for it.
//
// After an error nothing is known: Redis did not answer, and the lock may or
// may not have been taken. Unlock gives it back if it was; if it was not, and
// this was a re-entry, Unlock gives back the outer hold.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return false, err
	}
	n, err := m.ask(ctx, owner, 0)
	return n > 0, err
}

// Unlock gives the lock back, even when ctx is cancelled already: a caller
// that gives up must not keep the others waiting. The next one has the lock once
// there were as many calls of Unlock as of Lock and TryLock that succeeded.
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
	n, err := unlockScript.Run(ctx, m.rdb, m.keys(), owner).Int()
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
