// Package lock is stage 7: who waits stands in a queue, and is handed the lock.
//
// New: waiters do not ask again and again. Those of one process queue up in its
// memory, and one of them stands in a queue in Redis for all (queue.go). Unlock
// hands the lock on: to the next one in the process, for up to maxPasses times,
// then by one script to the first process in the queue, which sleeps in BLPOP
// until it is woken by one message. Inside a process the lock is passed on
// without a word to Redis (cohort.go).
//
// The ideas are those of queue locks, where a waiter watches a place of its own
// (Mellor-Crummey and Scott, ACM TOCS 9(1), 1991), and of lock cohorting, where
// the lock stays on one side for a bounded number of turns (Dice, Marathe and
// Shavit, PPoPP 2012).
//
// Holds:
//   - all that stage 6 holds: TestExclusive, TestReentrant, TestUnlockAfterCancel,
//     TestDeadHolderExpires, TestLongWorkKeepsLock, TestLossIsTold
//   - first come, first served, in a process and among processes: TestFIFO,
//     TestFIFOInAProcess, TestProcessesTakeTurns
//   - a waiter that gives up, or dies, holds nobody up for longer than twice the
//     ttl: TestCancelLeavesNothing, TestDeadWaiterIsSkipped
//   - a message that is lost costs a third of the ttl: TestLostWakeUp
//   - a failed Unlock is tried again until the ttl is over: TestFailedUnlockIsTriedAgain
//   - a holder that lost the lock and hangs shuts nobody out: TestLostHoldLetsItsProcessGoOn
//   - no holder relies on a longer lease than Redis keeps: TestNobodyReliesOnMoreThanRedisKeeps
//   - a lost reply counts nothing twice, and a failed re-entry frees nothing:
//     a ticket is served once, and re-entry is a matter of the process:
//     TestLostReplyCountsOnce
//
// Breaks:
//   - what nobody unlocks, its process renews for ever: TestForgottenUnlock
//   - a process that is stopped for longer than ttl learns of its loss only
//     as it goes on, maybe one write too late: TestPausedHolderWritesTooLate
package lock

import (
	"context"
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

// A Mutex is one holder's handle on the lock: every holder makes its own.
// It must not be used by several goroutines at once.
type Mutex struct {
	at  place
	ttl time.Duration

	turn *turn // the last one
}

// New returns a handle on the lock that lives at key. It does not take it.
// Once taken, the lock expires ttl after its holder stops renewing it. A quarter
// of ttl must be ample time for Redis to answer. The queue lives beside it, at
// names that begin with key: on a cluster, key needs a hash tag.
//
// All Mutexes of one client and key are one process to the lock: they share its
// place in the queue, and while they wait one connection of the client's pool.
// The pool should have more than there are locks that a process waits for at once.
func New(rdb redis.UniversalClient, key string, ttl time.Duration) *Mutex {
	return &Mutex{at: place{rdb, key}, ttl: ttl}
}

// Lock waits for the lock, first come, first served, and takes it for the owner
// in ctx; an owner that has it enters once more at once, or gets ErrLost. Lock
// returns the cause of ctx if that ends first, and the error of a Redis that does
// not answer. After an error there is nothing to give back.
func (m *Mutex) Lock(ctx context.Context) error {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	mu.Lock()
	c := m.cohort()
	if is, err := c.reenter(m, owner); is {
		mu.Unlock()
		return err
	}
	w := c.join(m, owner)
	c.step()
	mu.Unlock()
	select {
	case err := <-w.served:
		return err
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	if c.quit(w) {
		return context.Cause(ctx)
	}
	return <-w.served // just now
}

// TryLock takes the lock for the owner in ctx, if it is free and nobody waits
// for it, or that owner's already. False means that it is neither. After an
// error the lock is not held: should it have been taken, it is given back.
func (m *Mutex) TryLock(ctx context.Context) (bool, error) {
	owner, err := ownerFrom(ctx)
	if err != nil {
		return false, err
	}
	mu.Lock()
	defer mu.Unlock()
	c := m.cohort()
	if is, err := c.reenter(m, owner); is {
		return err == nil, err
	}
	return c.try(ctx, m, owner)
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

	mu.Lock()
	defer mu.Unlock()
	c := cohorts[m.at]
	if c == nil || c.turns[owner] == nil {
		return ErrNotHeld
	}
	t := c.turns[owner]
	if t.depth--; t.depth > 0 {
		return nil
	}
	return c.leave(ctx, t)
}
