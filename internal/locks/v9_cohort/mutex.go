// Package lock is stage 9: a process hands the lock on among its own waiters before it
// lets another process have it.
//
// New: a cohort. The waiters of a process queue up in its memory, and one goroutine
// stands in the queue in Redis for all of them (queue.go). Unlock hands the lock to the
// next one in the process, for up to maxPasses times and no longer than the ttl, and
// without a word to Redis (cohort.go); then to the first process in the queue. Lock
// cohorting is by Dice, Marathe and Shavit (PPoPP 2012). What stands in the queue is a
// ticket, not an owner: it is served once, and the process counts re-entries, so that a
// lost reply counts nothing twice. Each holder of a cohort has a token of its own.
//
// Holds:
//   - all that stage 8 holds: TestExclusive, TestFIFO, TestCancelLeavesNothing,
//     TestDeadHolderExpires, TestDeadWaiterIsSkipped, TestLostWakeUp, TestLossIsTold,
//     TestTokenGrows, TestTokenSurvivesFailover, TestReentryKeepsToken, TestPausedHolderIsFenced
//   - turns within a process take no command: TestFIFOInAProcess
//   - processes take turns, however many wait in one: TestProcessesTakeTurns
//   - a lost reply counts nothing twice, and a failed re-entry frees nothing:
//     TestLostReplyCountsOnce
//   - a failed Unlock is tried again until the ttl is over: TestFailedUnlockIsTriedAgain
//   - a holder that lost the lock and hangs shuts nobody out: TestLostHoldLetsItsProcessGoOn
//   - no holder relies on a longer lease than Redis keeps: TestNobodyReliesOnMoreThanRedisKeeps
//
// Breaks:
//   - what nobody unlocks, its process renews for ever: TestForgottenUnlock
//   - where the resource does not check, a stopped holder writes too late, as in
//     stage 7: TestPausedHolderIsFenced
//   - a server whose clock goes back further than the last token is remembered
//     grants holds that the resource refuses, until the clock has caught up:
//     TestClockThatGoesBackIsRefused
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
